"""Compare arms with and without pretraining on labelled texts, and report the gain."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.comparison.arms import TransformerArm
from warmstart.comparison.attention import attention_example
from warmstart.comparison.budget import (
    apply_limit,
    choose_trials,
    final_s,
    measure_arms,
    share_threads,
)
from warmstart.comparison.cells import cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.grid import train_cells, train_final_model
from warmstart.comparison.plan import ExperimentPlan, plan_experiment
from warmstart.comparison.report import (
    comparison_sections,
    draw_differences,
    draw_epochs,
    draw_labels,
    write_comparison_page,
)
from warmstart.comparison.results import (
    Arm,
    AttentionExample,
    Cell,
    Comparison,
    Contrast,
    Split,
    TunedArm,
    pool_pretrainings,
)
from warmstart.comparison.schedule import Schedule
from warmstart.comparison.spaces import unlabelled_source
from warmstart.comparison.summary import Summary
from warmstart.comparison.suspects import SuspectLabels, suspect_labels
from warmstart.comparison.texts import subset_sizes
from warmstart.comparison.verdict import contrast, summarise
from warmstart.comparison.workers import open_workers
from warmstart.data.copies import NamedTexts, SharedTexts, describe_shared, find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.dataframes import Tabular
from warmstart.files import write_json
from warmstart.jsonfiles import from_json
from warmstart.recipes.card import write_card
from warmstart.report.html import Shown, soft
from warmstart.report.style import save_figure
from warmstart.runs.facts import ConfigFile, Limit
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import check_unchanged, open_run, update_config, write_config
from warmstart.runs.saved import kept_models, recipes_of
from warmstart.tasks.hub import say_not_exportable
from warmstart.tasks.labelled_data import readable_rows, rows_seen
from warmstart.tasks.registry import choose_task, finetuning_task, load
from warmstart.tasks.text_model import TextModel
from warmstart.textfiles import file_facts
from warmstart.training.length import TIMED_S, TIMED_SHARE, Clock

SECTIONS_IN_NOTEBOOKS = 2  # verdict, and accuracy by epoch or arms; the report has more


@dataclass(frozen=True)
class CompareResult(Shown, Tabular):
    """The outcome of a comparison; as a table, a row for each arm at each number of labels."""

    folder: Path
    report: Path
    comparison: Comparison
    summary: Summary
    contrast: Contrast | None  # the two best models; None: no answer is simply wrong
    attention: AttentionExample | None  # of the first warm model and its cold one, if kept
    suspects: SuspectLabels | None = None  # of a cross-validation

    def pieces(self) -> list[str]:
        sections = comparison_sections(self.comparison, self.summary)[:SECTIONS_IN_NOTEBOOKS]
        pieces = [piece for section in sections for piece in section.pieces]
        return [*pieces, soft(f"Everything else is in {self.report}.")]

    @property
    def models(self) -> dict[str, Path]:
        """Return the run folder of each arm's kept model; if several are kept, of the last one."""
        return {arm: path for path, arm in kept_models(RunFolder(self.folder)).items()}

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "arm": score.arm,
                "labels": score.labels,
                self.comparison.metric: score.scored.accuracy,
                "low": score.scored.interval.low,
                "high": score.scored.interval.high,
                "spread": score.scored.spread,
                "seeds": score.scored.num_seeds,
            }
            for score in self.summary.scores
        ]

    @property
    def model(self) -> TextModel:
        """Return the model of the arm to use, ready to predict, if it was kept."""
        return load(self.folder)

    @property
    def advised(self) -> Arm:
        """Return the arm to use."""
        return self.comparison.arm(self.summary.advice.arm)


def compare(config: CompareConfig) -> CompareResult:
    """Compare warm, frozen and cold starts, LSA and TF-IDF on labelled texts."""
    clock, config = Clock(config.minutes), resolve(config)
    asked = config
    with open_run("compare", config, config.out, config.resume) as run:
        is_finished = (run.path / "results.json").exists()
        if is_finished:
            progress.say(f"{run.path} is already finished; nothing to do")
        if run.data_file.exists():
            check_unchanged(run)
        plan = plan_experiment(config)
        if not run.data_file.exists():
            model = plan.sources[0].model if plan.sources else None
            write_config(run, "compare", config, model)
            write_json(run.data_file, {"files": file_facts(_files(plan))})
            if config.save != "none":
                _say_what_is_not_exportable(plan)
        with open_workers(config) as workers:
            config, plan, schedule = _schedule(config, plan, run, clock, is_finished)
            with progress.due_in(clock.left_s):
                cells, tuned = train_cells(config, run, plan, schedule, workers)
        plan = _record(asked, run, plan, schedule)
        comparison = _comparison(config, plan, cells, tuned)
        summary = summarise(comparison)
        scored = plan.texts.data[comparison.scored_split.name]
        texts = readable_rows(scored, config.pieces)
        result = CompareResult(
            run.path,
            run.path / "report.html",
            comparison,
            summary,
            contrast(comparison, summary, texts, plan.texts.describe)
            if plan.texts.task.is_right_or_wrong
            else None,
            attention_example(config, run, plan, comparison),
            suspect_labels(comparison, texts, scored.lines, plan.texts.describe),
        )
        if not is_finished:
            if comparison.final_labels:
                _train_final_model(config, run, plan, comparison, tuned, summary.advice.arm)
            _write_cards(run)
            _write(result)
        return result


def resolve(config: CompareConfig) -> CompareConfig:
    """Return the settings with every default that is known before the texts are read."""
    config = choose_task(config)
    return finetuning_task(config.task).choose_truncation(share_threads(config))


def _train_final_model(
    config: CompareConfig,
    run: RunFolder,
    plan: ExperimentPlan,
    comparison: Comparison,
    tuned: Sequence[TunedArm],
    arm: str,
) -> None:
    """Train the advised arm on all texts, those that were set aside or held out among them."""
    labels, seed = comparison.subsets[-1], config.seeds[0]
    cell = next(cell for cell in comparison.cells_of(arm, labels) if cell.seed == seed)
    split = comparison.scored_split
    scores = plan.texts.task.answer_scores(cell.predictions[split.name], split.classes)
    of_arm = [fold for fold in tuned if (fold.arm, fold.labels) == (arm, labels)]
    train_final_model(config, run, plan, of_arm, scores)


def _say_what_is_not_exportable(plan: ExperimentPlan) -> None:
    """Say before the training which arms' models could not be exported after it."""
    arms: dict[str | None, list[str]] = {}  # by the problem that prevents an export
    for arm in (planned.arm for planned in plan.arms):
        if isinstance(arm, TransformerArm):
            problem = arm.hub_model.problem
        else:
            problem = "only a Transformer can be"
        arms.setdefault(problem, []).append(arm.name)
    for problem, names in arms.items():
        say_not_exportable(", ".join(names), problem)


def _schedule(
    asked: CompareConfig, plan: ExperimentPlan, run: RunFolder, clock: Clock, is_finished: bool
) -> tuple[CompareConfig, ExperimentPlan, Schedule]:
    """Return settings and plan with the trials that fit into the minutes, and the schedule.

    What a finished comparison trained is recorded, and so are the trials of an unfinished one.
    """
    limit = from_json(ConfigFile, run.config(), run.config_file).within_minutes
    is_timed = not is_finished and (asked.minutes is not None or limit is None)
    seconds = TIMED_S if asked.minutes is None else TIMED_SHARE * 60 * asked.minutes
    paces = measure_arms(asked, plan, seconds) if is_timed else {}
    if limit is None:
        limit = Limit(trials=choose_trials(asked, plan, paces, clock))
        update_config(run, within_minutes=asdict(limit))
    config, plan = apply_limit(asked, plan, limit)
    groups = tuple(cell_groups(config, run, plan, subset_sizes(config, plan.texts)))
    last_s, dropped = final_s(config, plan, paces), frozenset(limit.dropped)
    return config, plan, Schedule(config, clock, groups, paces, dropped, last_s)


def _record(
    asked: CompareConfig, run: RunFolder, plan: ExperimentPlan, schedule: Schedule
) -> ExperimentPlan:
    """Record which cells were dropped, and return the plan that names them."""
    limit = Limit(trials=schedule.config.trials, dropped=tuple(sorted(schedule.dropped)))
    if limit != from_json(ConfigFile, run.config(), run.config_file).within_minutes:
        update_config(run, within_minutes=asdict(limit))
    left_out = schedule.describe(asked)
    if left_out:
        progress.say(left_out)
    return replace(plan, left_out=left_out)


def _files(plan: ExperimentPlan) -> dict[Path, int]:
    """Return every file that the result depends on, with its rows."""
    weights = {source.weights_file: len(source.weights) for source in plan.sources}
    return {**plan.texts.files, **weights, **plan.spaces.files}


def _comparison(
    config: CompareConfig,
    plan: ExperimentPlan,
    cells: Sequence[Cell],
    tuned: Sequence[TunedArm],
) -> Comparison:
    overlaps, is_shared = _find_overlaps(config, plan)
    texts = plan.texts

    splits = tuple(
        Split(
            name=name,
            file=texts.data[name].file,
            classes=tuple(texts.data[name].targets),
            shared=tuple(np.flatnonzero(is_shared[name]).tolist()),
            num_folds=config.folds,
        )
        for name in texts.held_out
        if name != "validation" or not config.refits  # else its texts are trained on
    )
    described = [planned.arm.describe() for planned in plan.arms]
    subsets = tuple(sorted({cell.labels for cell in cells}))
    num_scored, num_final = texts.scored_labels(subsets[-1]), texts.final_labels(subsets[-1])
    comparison = Comparison(
        title=config.title,
        train_file=", ".join(config.train),
        class_names=texts.classes,
        class_counts=texts.task.class_counts(texts.training.targets, texts.labels),
        arms=tuple(arm for arm in described if arm.name in {cell.arm for cell in cells}),
        subsets=subsets,
        seeds=tuple(seed for seed in config.seeds if seed in {cell.seed for cell in cells}),
        cells=tuple(cells),
        tuned=tuple(arm for arm in tuned if arm.trials),
        splits=splits,
        overlaps=tuple(overlaps),
        num_truncated=max(planned.num_truncated for planned in plan.arms),
        notes=tuple(plan.notes),
        attainable=config.attainable,
        left_out=plan.left_out,
        num_labelled=len(texts.pool),
        scored_labels=num_scored,
        final_labels=num_final if config.retrains and num_final > num_scored else 0,
        num_choosing=len(texts.data["validation"]) if config.valid and not config.folds else 0,
        task=texts.task.name,
        metric=texts.task.metric_name(texts.labels),
    )
    return pool_pretrainings(comparison, recipes_of(plan.sources))


def _find_overlaps(
    config: CompareConfig, plan: ExperimentPlan
) -> tuple[list[SharedTexts], dict[str, NDArray[np.bool_]]]:
    """Describe the texts that splits share, and tell which rows were in data used before.

    Test texts are compared with validation too, because settings are chosen by it.
    """
    overlaps, earlier = list[SharedTexts](), list[NamedTexts]()
    trained_on = {f"pretraining of {name}": seen for name, seen in plan.seen.items()}
    if config.unlabelled:
        with progress.silence():
            passages = unlabelled_source(config).passages()
        documents = ("\n".join(passage.rows) for passage in passages)
        trained_on["unlabelled text"] = fingerprints_of(documents)
    is_shared: dict[str, NDArray[np.bool_]] = {}
    for name, split in plan.texts.data.items():
        texts = readable_rows(split, config.pieces)
        named = NamedTexts(name, fingerprints_of(texts), texts.__getitem__)
        is_shared[name] = np.zeros(len(texts), np.bool_)
        for other in earlier:
            matches = find_matches(named.fingerprints, other.fingerprints)
            is_shared[name] |= matches.both
            overlaps.append(describe_shared(other, named, matches))
        for source_name, seen in trained_on.items():
            matches = rows_seen(split, seen, config.pieces)
            is_shared[name] |= matches.both
            source = NamedTexts(source_name, seen)
            overlaps.append(describe_shared(source, named, matches))
        earlier.append(named)
    return overlaps, is_shared


def _write_cards(run: RunFolder) -> None:
    """Write the model card of every model that is kept."""
    for file in run.models.glob("*/config.json"):
        folder = RunFolder(file.parent)
        write_card(folder, folder.read_json(folder.scores_file))


def _write(result: CompareResult) -> None:
    folder, comparison, summary = result.folder, result.comparison, result.summary
    if summary.curves:
        save_figure(draw_epochs(comparison, summary), folder / "epochs")
    if summary.differences:
        save_figure(draw_differences(comparison, summary), folder / "differences")
    if len(comparison.subsets) > 1:
        save_figure(draw_labels(comparison, summary), folder / "labels")
    write_comparison_page(
        comparison, summary, result.report, result.contrast, result.attention, result.suspects
    )
    results = {**asdict(comparison), "summary": asdict(summary)}
    write_json(folder / "results.json", results)  # written last: it marks the end
