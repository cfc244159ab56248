"""Pretrained runs and labelled texts -> what the pretraining is worth, in a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warmstart import progress
from warmstart.data.overlap import find_shared, fingerprints_of
from warmstart.experiments.arms import FittedCell
from warmstart.experiments.cells import subset_sizes, train_cells
from warmstart.experiments.contrast import contrast
from warmstart.experiments.plan import ExperimentPlan, plan_experiment
from warmstart.experiments.verdicts import summarise
from warmstart.files import write_json
from warmstart.recipes.finetune import read_backbone
from warmstart.report.comparison_figures import draw_differences, draw_epochs, draw_labels
from warmstart.report.comparison_page import write_comparison_page
from warmstart.report.images import save_figure
from warmstart.results.comparison import Cell, Comparison, Contrast, Overlap, Split, to_json
from warmstart.results.summary import Summary, summary_to_json
from warmstart.runs.lifecycle import check_unchanged, open_run, write_config
from warmstart.settings.comparing import CompareConfig
from warmstart.tasks.classify import count_classes
from warmstart.tasks.labelled import readable_rows, rows_seen
from warmstart.textfiles import file_facts


@dataclass(frozen=True)
class CompareResult:
    """The outcome of a comparison."""

    folder: Path
    report: Path
    comparison: Comparison
    summary: Summary
    contrast: Contrast  # the first warm model beside its cold one

    @property
    def best_start(self) -> str:
        """Return the pretrained run whose warm arm validates best with all labels."""
        warm = {arm.name: str(arm.source) for arm in self.comparison.arms if arm.kind == "warm"}
        labels = self.comparison.subsets[-1]
        scores = [s for s in self.summary.scores if s.arm in warm and s.labels == labels]
        return warm[max(scores, key=lambda score: score.validation.accuracy).arm]


def compare(config: CompareConfig) -> CompareResult:
    """Compare warm, frozen and cold starts and TF-IDF on labelled texts."""
    with open_run("compare", config, config.out, config.resume) as run:
        is_finished = (run.path / "results.json").exists()
        if is_finished:
            progress.say(f"{run.path} is already finished; nothing to do")
        if run.data_file.exists():
            check_unchanged(run.read_json(run.data_file))
        plan = plan_experiment(config, [read_backbone(path) for path in config.from_runs])
        subsets = subset_sizes(config, len(plan.data["train"]), len(plan.classes))
        if not run.data_file.exists():
            write_config(run, "compare", config, plan.sources[0].model)
            write_json(run.data_file, {"files": file_facts(_files(config, plan))})
        fitted = list(train_cells(config, run, plan, subsets))
        comparison = _comparison(config, plan, subsets, [cell.cell for cell in fitted])
        result = CompareResult(
            run.path,
            run.path / "report.html",
            comparison,
            summarise(comparison),
            _contrast(config, plan, comparison, fitted),
        )
        if not is_finished:
            _write(result)
        return result


def _files(config: CompareConfig, plan: ExperimentPlan) -> dict[Path, int]:
    """Return every file that the result depends on, with its rows."""
    rows = {Path(split.file): len(split) for split in plan.data.values()}
    label_files = {
        "train": config.train_labels,
        "validation": config.valid_labels,
        "test": config.test_labels,
    }
    rows |= {Path(path): len(plan.data[name]) for name, path in label_files.items() if path}
    return rows | {source.weights_file: len(source.weights) for source in plan.sources}


def _comparison(
    config: CompareConfig, plan: ExperimentPlan, subsets: tuple[int, ...], cells: Sequence[Cell]
) -> Comparison:
    codes = {
        name: fingerprints_of(readable_rows(split, config.pieces))
        for name, split in plan.data.items()
    }
    is_known = {
        (run_name, name): rows_seen(split, seen, config.pieces)
        for run_name, seen in plan.seen.items()
        for name, split in plan.data.items()
    }
    overlaps = [
        Overlap(a=shared.a, b=shared.b, distinct=shared.distinct, rows=shared.rows)
        for shared in find_shared(codes)
    ]
    for (run_name, name), known in is_known.items():
        distinct = len(np.unique(codes[name][known]))
        a = f"pretraining of {run_name}"
        overlaps.append(Overlap(a=a, b=name, distinct=distinct, rows=int(known.sum())))

    def split(name: str) -> Split:
        is_shared = np.isin(codes[name], codes["train"])
        for run_name in plan.seen:
            is_shared |= is_known[run_name, name]
        return Split(
            name="test" if name == "test" else "validation",
            file=plan.data[name].file,
            classes=tuple(plan.class_numbers(name)),
            shared=tuple(int(row) for row in np.flatnonzero(is_shared)),
        )

    return Comparison(
        title=config.title,
        train_file=config.train,
        class_names=plan.classes,
        class_counts=count_classes(plan.class_numbers("train"), plan.classes),
        arms=tuple(planned.arm.describe() for planned in plan.arms),
        subsets=subsets,
        seeds=config.seeds,
        cells=tuple(cells),
        validation=split("validation"),
        test=split("test") if config.test else None,
        overlaps=tuple(overlaps),
        notes=tuple(plan.notes),
        attainable=config.attainable,
    )


def _contrast(
    config: CompareConfig,
    plan: ExperimentPlan,
    comparison: Comparison,
    fitted: Sequence[FittedCell],
) -> Contrast:
    """Set the first warm model beside its cold one."""
    maps = {cell.cell.arm: cell.attention for cell in fitted if cell.attention is not None}
    texts = readable_rows(plan.data[comparison.judge.name], config.pieces)
    return contrast(comparison, texts, plan.arms[0].splits.attention_row, maps)


def _write(result: CompareResult) -> None:
    folder, comparison, summary = result.folder, result.comparison, result.summary
    save_figure(draw_epochs(comparison, summary), folder / "epochs")
    save_figure(draw_differences(comparison, summary), folder / "differences")
    if len(comparison.subsets) > 1:
        save_figure(draw_labels(comparison, summary), folder / "labels")
    write_comparison_page(comparison, summary, result.report, contrast=result.contrast)
    write_json(
        folder / "results.json", {**to_json(comparison), "summary": summary_to_json(summary)}
    )  # written last: it marks the end
