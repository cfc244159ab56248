"""What a comparison trains: the arms of every run, each with the texts as it reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart import progress
from warmstart.data.fingerprints import Fingerprints
from warmstart.data.labelled import LabelledTexts
from warmstart.data.validation_split import describe_labels
from warmstart.errors import WarmstartError
from warmstart.experiments.arms import ArmSplit, ExperimentArm, Splits, TfidfArm, TransformerArm
from warmstart.experiments.subsets import LabelPool, validation_folds
from warmstart.files import distinct_names
from warmstart.results.comparison import ArmKind
from warmstart.runs.lifecycle import check_length
from warmstart.runs.lineage import describe_unrecorded
from warmstart.runs.saved import SavedRun
from warmstart.runtime import choose_runtime
from warmstart.settings.finetuning import CompareConfig
from warmstart.settings.model import ModelConfig, ablation_warning
from warmstart.tasks.classify import class_names, class_numbers
from warmstart.tasks.labelled import (
    Examples,
    check_same_form,
    describe_encoding,
    encode_labelled,
    for_tokenizer,
    read_labelled_file,
    read_training_texts,
    readable_rows,
)

SHOWN_TOKENS = (8, 48)  # length of a text whose attention is easy to read
MAX_SHOWN_TOKENS = 128  # a figure of the attention on a longer text is unreadable


@dataclass(frozen=True)
class ExperimentPlan:
    """Everything a comparison computes with."""

    arms: list[tuple[ExperimentArm, Splits]]  # with the texts as each arm reads them
    classes: tuple[str, ...]
    data: dict[str, LabelledTexts]  # train, validation and perhaps test
    pool: LabelPool
    files: dict[Path, int]  # every file of labelled texts, with its rows
    sources: list[SavedRun]
    seen: dict[str, Fingerprints]  # texts that trained each source, by its name
    notes: list[str]

    def class_numbers(self, split: str) -> list[int]:
        """Return the true classes of a split."""
        return class_numbers(self.data[split], self.classes)

    @property
    def num_truncated(self) -> int:
        """Return how many scored texts are read only in part, by the arm that reads least."""
        return max(splits.scored.num_truncated for _, splits in self.arms)


def plan_experiment(config: CompareConfig, sources: Sequence[SavedRun]) -> ExperimentPlan:
    """Read the labelled files, and return the arms with the texts as each reads them."""
    texts = read_training_texts(config)
    data, files = {"train": texts.train, "validation": texts.valid}, texts.files
    if config.test:
        data["test"] = read_labelled_file(config.test, config.test_labels, config)
        given = filter(None, (config.test, config.test_labels))
        files |= {Path(file): len(data["test"]) for file in given}
    check_same_form(*data.values())
    classes = class_names(data["train"])
    for split in data.values():
        class_numbers(split, classes)  # refuses unknown labels before anything is trained
    validation_folds(class_numbers(data["validation"], classes), "test" in data)  # refuses one text
    named = dict(zip(_run_names(sources), sources, strict=True))
    seen = {name: source.texts_seen() for name, source in named.items()}
    notes = describe_labels(texts.train, texts.valid)
    if config.valid:
        notes.append(f"settings are chosen on {len(texts.valid):,} labels of {config.valid}, too")
    for note in notes:
        progress.say(note)
    notes += [
        f"{name} is {ablation_warning(source.model.ablated)}"
        for name, source in named.items()
        if source.model.ablated != "nothing"
    ]
    notes += [
        describe_unrecorded(name) for name, source in named.items() if source.has_unrecorded_texts
    ]
    arms = _transformer_arms(config, data, classes, named, notes)
    if "tfidf" in config.arms:
        tfidf = TfidfArm("tf-idf", len(classes), config.balance)
        arms.append((tfidf, _tfidf_splits(config, data, classes)))
    pool = LabelPool(len(texts.train), None if config.valid else len(texts.valid))
    return ExperimentPlan(arms, classes, data, pool, files, list(sources), seen, notes)


def _run_names(sources: Sequence[SavedRun]) -> list[str]:
    """Return a short name for each run; a checkpoint is named by its run and step."""
    paths = [source.path.resolve() for source in sources]
    if len(set(paths)) < len(paths):
        raise WarmstartError("--from names the same run twice")
    named = [
        path
        if source.path == source.folder.path
        else path.parents[2] / f"{path.parents[1].name} {path.name}"
        for path, source in zip(paths, sources, strict=True)
    ]
    return distinct_names(named)


def _transformer_arms(
    config: CompareConfig,
    data: dict[str, LabelledTexts],
    classes: tuple[str, ...],
    sources: dict[str, SavedRun],
    notes: list[str],
) -> list[tuple[ExperimentArm, Splits]]:
    """Return the Transformer arms, grouped by kind."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    cold_names, planned = _cold_names(config, sources, notes), set[str]()
    kinds: tuple[ArmKind, ...] = ("warm", "frozen", "cold")
    arms: dict[ArmKind, list[tuple[ExperimentArm, Splits]]] = {
        kind: [] for kind in kinds if kind in config.arms
    }
    for run_name, source in sources.items():
        check_length(source.model, config.max_length, source.path)
        model = _architecture(config, source)
        splits = _splits(config, data, classes, source, notes)
        ending = f": {run_name}" if len(sources) > 1 else ""
        cold = cold_names[run_name]
        for kind in arms:
            if kind == "cold" and cold in planned:
                continue
            name = cold if kind == "cold" else f"{kind}{ending}"
            counterpart = None if kind == "cold" else cold
            arm = TransformerArm(name, kind, source, model, classes, config, runtime, counterpart)
            arms[kind].append((arm, splits))
        planned.add(cold)
    return [arm for kind in arms for arm in arms[kind]]


def _architecture(config: CompareConfig, source: SavedRun) -> ModelConfig:
    return replace(source.model, max_length=config.max_length or source.model.max_length)


def _cold_names(
    config: CompareConfig, sources: dict[str, SavedRun], notes: list[str]
) -> dict[str, str]:
    """Return each run's cold arm: one for every different architecture and tokenizer."""
    same: dict[tuple[ModelConfig, str], list[str]] = {}
    for name, source in sources.items():
        model = _architecture(config, source)
        # These settings only concern the head of a language model.
        model = replace(model, tied=False, transform=False, output_bias=True)
        same.setdefault((model, source.tokenizer.fingerprint()), []).append(name)
    for group in same.values():
        if 1 < len(group) < len(sources) and "cold" in config.arms:
            names = f"{', '.join(group[:-1])} and {group[-1]}"
            notes.append(f"{names} share architecture and tokenizer, so one cold arm: {group[0]}")
    return {
        name: "cold" if len(same) == 1 else f"cold: {group[0]}"
        for group in same.values()
        for name in group
    }


def _splits(
    config: CompareConfig,
    data: dict[str, LabelledTexts],
    classes: tuple[str, ...],
    source: SavedRun,
    notes: list[str],
) -> Splits:
    """Return the texts as the tokenizer of a run reads them."""
    max_length = _architecture(config, source).max_length
    splits = {}
    for name, read in data.items():
        split = for_tokenizer(read, source.tokenizer, config.pieces)
        encoded = encode_labelled(split, source.tokenizer, max_length, config.truncate)
        note = describe_encoding(split.file, encoded, max_length, config.truncate)
        if len(config.from_runs) > 1:
            note = f"{source.path}: {note}"
        notes.append(note)
        progress.say(note)
        targets = class_numbers(split, classes)
        examples = Examples(encoded.ids, targets, encoded.starts)
        splits[name] = ArmSplit(split.texts, examples, encoded.num_truncated)
    planned = Splits(splits["train"], splits["validation"], splits.get("test"))
    row = choose_attention_row(planned.scored.examples.ids, max_length)
    return replace(planned, attention_row=row)


def choose_attention_row(ids: Sequence[Sequence[int]], max_length: int) -> int | None:
    """Return the first row of a length that is easy to read, else the nearest in length.

    A text of the model's full length may have been cut, so a shorter one is preferred. None: all
    texts are too long.
    """
    least, most = SHOWN_TOKENS
    most = min(most, max_length - 1)
    row = min(range(len(ids)), key=lambda row: max(least - len(ids[row]), len(ids[row]) - most, 0))
    return row if len(ids[row]) <= MAX_SHOWN_TOKENS else None


def _tfidf_splits(
    config: CompareConfig, data: dict[str, LabelledTexts], classes: tuple[str, ...]
) -> Splits:
    splits = {
        name: ArmSplit(
            readable_rows(split, config.pieces),
            Examples([()] * len(split), class_numbers(split, classes)),
        )
        for name, split in data.items()
    }
    return Splits(splits["train"], splits["validation"], splits.get("test"))
