"""What models that did not see a label say of it: those of a comparison, or some fitted here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.comparison.commands import ArmName, CompareConfig
from warmstart.comparison.plan import PlannedArm, plan_arms, run_names
from warmstart.comparison.results import Cell, Comparison
from warmstart.comparison.spaces import NAME as LSA
from warmstart.comparison.spaces import AnalysedText, Spaces, kept_spaces, unlabelled_source
from warmstart.comparison.suspects import contradicted_labels, held_out_cells
from warmstart.comparison.texts import ExperimentTexts, split_into_folds
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.jsonfiles import from_json
from warmstart.labelling.settings import ReviewConfig
from warmstart.runs.facts import InputFiles
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import LabelledFiles, Machine
from warmstart.tasks.finetuning import FinetuningTask, Labels
from warmstart.tasks.labelled_data import readable_rows
from warmstart.tasks.latent_semantics import documents_of, fit_space
from warmstart.tasks.registry import read_backbone, task_of
from warmstart.textfiles import sha256_of

NUM_FOLDS = 5
SEED = 0  # of the models, which are solved for


@dataclass(frozen=True)
class Doubt:
    """A label that held-out models contradict."""

    row: int
    answer: str  # the label that they find likely
    margin: float  # from 1, sure of the label, to -1, sure of another


def comparison_folder(path: str | None) -> RunFolder | None:
    """Return the folder of a comparison; None: it is another run, or none is named."""
    folder = RunFolder(path or "")
    if path is None or not folder.config_file.exists():
        return None
    config = folder.config()
    return folder if config["command"] == "compare" and config.get("task") is None else None


def comparison_doubts(
    config: ReviewConfig, folder: RunFolder, data: Dataset, task: FinetuningTask
) -> list[Doubt]:
    """Return the labels that every held-out model of a comparison contradicts."""
    for flag, value in (("--unlabelled", config.unlabelled), ("--folds", config.folds)):
        if value:
            raise WarmstartError(
                f"{flag} has no effect with --from {folder.path}, a comparison whose models judge: "
                "leave it out, or name a pretrained run"
            )
    file = folder.path / "results.json"
    if not file.exists():
        raise WarmstartError(
            f"{folder.path} is an unfinished comparison: continue it with `compare --resume`"
        )
    results = folder.read_json(file)
    comparison = from_json(
        Comparison, {key: value for key, value in results.items() if key != "summary"}, file
    )
    cells = held_out_cells(comparison)
    if not cells:
        raise WarmstartError(
            f"--from {folder.path} keeps nothing on held-out labels: repeat the comparison with "
            "--folds 5, or name a pretrained run"
        )
    _check_same_files(folder, data)
    labels = {"classes": list(comparison.class_names)}
    if list(comparison.scored_split.classes) != task.targets(data, labels):
        raise WarmstartError(
            f"{data.file}: its rows are not read as {folder.path} read them; give the same "
            "--train, --valid, --columns and --task"
        )
    _check_cells(cells, comparison, task, labels, file)
    models = quantity(len(cells), "model")
    progress.say(f"{folder.path}: each label is judged by {models} trained without its fold")
    suspects = contradicted_labels(comparison, lambda a: task.describe_answer(a, labels))
    return [Doubt(suspect.row, suspect.answer, suspect.margin) for suspect in suspects]


def _check_cells(
    cells: Sequence[Cell], comparison: Comparison, task: FinetuningTask, labels: Labels, file: Path
) -> None:
    """Refuse results that do not answer every text with an answer of the task."""
    targets = comparison.scored_split.classes
    num_texts = len(targets)
    is_answer = partial(task.is_answer, labels=labels)
    for cell in cells:
        answers = cell.predictions.get(comparison.scored_split.name, ())
        is_whole = len(answers) == len(cell.margins) == num_texts
        if not is_whole or not all(map(is_answer, answers, targets)):
            raise WarmstartError(
                f"{file} is damaged: {cell.arm} does not answer {quantity(num_texts, 'text')}; "
                "repeat the comparison"
            )


def _check_same_files(folder: RunFolder, data: Dataset) -> None:
    """Refuse labelled files that are not those of a comparison, byte for byte."""
    recorded = from_json(InputFiles, folder.read_json(folder.data_file), folder.data_file).files
    known = {entry.sha256 for entry in recorded}
    for file in data.files:
        if sha256_of(file) not in known:
            raise WarmstartError(
                f"{file} is not a file that {folder.path} compared on, or it has changed: repeat "
                "the comparison, or name a pretrained run with --from"
            )


def fitted_doubts(config: ReviewConfig, data: Dataset, task: FinetuningTask) -> list[Doubt]:
    """Return the labels that models contradict that are fitted here, on the other folds."""
    texts, outputs = held_out_probabilities(config, data, task)
    doubted = task.doubted_labels(outputs, texts.training.targets)
    assert doubted is not None, "the task was asked before"
    return [
        Doubt(row, texts.describe(doubted.answers[row]), float(doubted.margins[row]))
        for row in np.flatnonzero(doubted.is_doubted).tolist()
    ]


def held_out_probabilities(
    config: ReviewConfig, data: Dataset, task: FinetuningTask
) -> tuple[ExperimentTexts, NDArray[Any]]:
    """Return the texts in folds, and their mean outputs by models of the other folds.

    The models take seconds: a pretrained one that stays frozen, if there is one, LSA and TF-IDF.
    """
    source = _read_source(config.from_run) if config.from_run else None
    compared = _as_comparison(config, source if task.solves_heads else None)
    texts = split_into_folds(compared, task, data)
    for note in texts.notes:
        progress.say(note)
    spaces = _spaces(config, compared, source, texts)
    if compared.arms and not spaces.by_arm:
        compared = replace(compared, arms=("frozen", "tfidf"))
    sources = [source] if source and compared.from_runs else []
    arms = plan_arms(compared, texts, sources, spaces).arms
    progress.say(f"judged by {quantity(len(arms), 'model')}: {', '.join(a.arm.name for a in arms)}")
    return texts, _mean_outputs(arms, texts)


def _mean_outputs(arms: Sequence[PlannedArm], texts: ExperimentTexts) -> NDArray[Any]:
    """Return the mean outputs for every text of models that were trained on other folds."""
    total: NDArray[Any] | None = None
    with progress.bar("reviewing", len(arms) * len(texts.folds), "model") as bar:
        for planned in arms:
            for part, fold in zip(planned.parts, texts.folds, strict=True):
                splits = part.for_refit()
                (model,) = planned.arm.fit(splits, planned.arm.settings(1), SEED)
                outputs = model.predict(splits.scored) / len(arms)
                if total is None:
                    total = np.zeros((len(texts.training), *outputs.shape[1:]))
                total[fold.test] += outputs
                bar.advance(1, planned.arm.name)
    assert total is not None, "there is an arm, and a fold"
    return total


def _read_source(path: str) -> SavedRun:
    """Read the pretrained run; one that was trained on labels would know what it judges."""
    source = read_backbone(path)
    if not task_of(source).is_pretraining:
        recorded = source.settings.get("from")
        first = recorded[0] if isinstance(recorded, list) and recorded else recorded
        instead = f"the run it began with, {first}" if isinstance(first, str) else "none"
        raise WarmstartError(
            f"--from {path} is {task_of(source).description}: it may have learned the labels that "
            f"it would judge; name {instead}"
        )
    return source


def _as_comparison(config: ReviewConfig, source: SavedRun | None) -> CompareConfig:
    """Return the settings of a comparison of the models that are solved for."""
    shared = {s.name for s in (*LabelledFiles.declared(), *Machine.declared())}
    arms: tuple[ArmName, ...] = ("frozen", "lsa", "tfidf")
    return CompareConfig(
        **{name: getattr(config, name) for name in shared},
        from_runs=(str(source.path),) if source else (),
        unlabelled=config.unlabelled or config.train,
        folds=config.folds or NUM_FOLDS,
        seeds=(SEED,),
        trials=1,
        arms=arms if source else None,
        out="review",  # nothing is written there
    )


def _spaces(
    config: ReviewConfig, compared: CompareConfig, source: SavedRun | None, texts: ExperimentTexts
) -> Spaces:
    """Return the analysis of --unlabelled, else that of the run, else one of the texts judged.

    No label is read for it, so the texts of the fold that is judged may be among them.
    """
    if config.unlabelled:
        space = fit_space(documents_of(unlabelled_source(compared)))
    elif source and (kept := kept_spaces({run_names([source])[0]: source})).by_arm:
        return kept
    else:
        space = fit_space(readable_rows(texts.training, config.pieces))
    return Spaces({LSA: AnalysedText(space)}) if space else Spaces()
