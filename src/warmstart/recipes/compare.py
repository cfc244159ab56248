"""Arms x label subsets x seeds -> results and report: the product's main job.

A cell depends on its own arm, subset and seed alone; finished cells are kept, so that an
interrupted comparison goes on where it stopped.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart import progress
from warmstart.batching.loader import shuffled
from warmstart.data.overlap import find_shared, fingerprints_of
from warmstart.errors import StoppedError, WarmstartError
from warmstart.experiments.arms import Contestant, Fitted, Splits
from warmstart.experiments.plan import Plan, line_up
from warmstart.experiments.verdicts import summarise
from warmstart.files import write_json
from warmstart.report.attention_section import map_from_json, map_to_json
from warmstart.report.contrast import Contrast, contrast, rivals
from warmstart.report.images import save_figure
from warmstart.report.page import write_comparison_page
from warmstart.report.plots import draw_differences, draw_epochs, draw_labels
from warmstart.results.comparison import Cell, Comparison, Overlap, Split, cell_from_json, to_json
from warmstart.results.summary import Summary, summary_to_json
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import check_unchanged, file_facts, opened, write_config
from warmstart.settings.training import CompareConfig
from warmstart.tasks.labelled import count_classes
from warmstart.training.interrupt import listening


@dataclass(frozen=True)
class CompareResult:
    """What a comparison came to."""

    folder: Path
    report: Path
    comparison: Comparison
    summary: Summary
    contrast: Contrast  # the first warm model beside its cold one

    @property
    def best_start(self) -> str:
        """Return the pretrained run whose warm arm validation likes best with all labels."""
        warm = {arm.name: str(arm.source) for arm in self.comparison.arms if arm.kind == "warm"}
        labels = self.comparison.subsets[-1]
        scores = [s for s in self.summary.scores if s.arm in warm and s.labels == labels]
        return warm[max(scores, key=lambda score: score.validation.accuracy).arm]


def compare(config: CompareConfig) -> CompareResult:
    """Compare warm, frozen and cold starts and the baseline on labelled texts."""
    with opened("compare", config, config.out, config.resume) as run:
        is_finished = (run.path / "results.json").exists()
        if is_finished:
            progress.say(f"{run.path} is finished already; nothing to do")
        if run.data_file.exists():
            check_unchanged(run.read_json(run.data_file))
        plan = line_up(config)
        subsets = _subsets(config, len(plan.data["train"].texts), len(plan.names))
        if not run.data_file.exists():
            write_config(run, "compare", config, plan.sources[0].model)
            write_json(run.data_file, {"files": file_facts(_files(config, plan))})
        fitted = list(_cells(config, run, plan, subsets))
        comparison = _comparison(config, plan, subsets, [found.cell for found in fitted])
        page = run.path / "report.html"
        contrasted = _contrast(config, plan, comparison, fitted)
        result = CompareResult(run.path, page, comparison, summarise(comparison), contrasted)
        if not is_finished:
            _write(result)
        return result


def _files(config: CompareConfig, plan: Plan) -> dict[Path, int]:
    """Return every file a result depends on, with its rows."""
    rows = {Path(split.file): len(split.texts) for split in plan.data.values()}
    given = {
        "train": config.train_labels,
        "validation": config.valid_labels,
        "test": config.test_labels,
    }
    rows |= {Path(path): len(plan.data[name].texts) for name, path in given.items() if path}
    return rows | {source.weights_file: len(source.weights) for source in plan.sources}


def _subsets(config: CompareConfig, num_texts: int, num_classes: int) -> tuple[int, ...]:
    sizes = {num_texts if size == "all" else int(size) for size in config.labels}
    for size in sizes:
        if not num_classes <= size <= num_texts:
            raise WarmstartError(
                f"--labels {size} is not possible: {config.train} has {num_texts:,} texts "
                f"in {num_classes} classes"
            )
    return tuple(sorted(sizes))


def nested_rows(classes: Sequence[int], seed: int) -> list[int]:
    """Order rows so that every beginning has the classes in proportion, each at least once."""
    ranks: dict[int, float] = {}
    for number in sorted(set(classes)):
        rows = [row for row, found in enumerate(classes) if found == number]
        for place, member in enumerate(shuffled(len(rows), seed, "subset", number)):
            ranks[rows[member]] = (place + 0.5) / len(rows) if place else number - len(classes)
    return sorted(ranks, key=lambda row: (ranks[row], row))


def _cells(
    config: CompareConfig, run: RunFolder, plan: Plan, subsets: Sequence[int]
) -> Iterator[Fitted]:
    """Yield every cell: read back when an earlier sitting finished it, else trained now."""
    total = len(plan.contestants) * len(subsets) * len(config.seeds)
    arms = [contestant.describe() for contestant, _ in plan.contestants]
    shown = {(name, subsets[-1], config.seeds[0]) for name in rivals(arms)}
    with listening() as interrupt, progress.bar("comparing", total, "model") as bar:
        for number, (contestant, splits) in enumerate(plan.contestants):
            arm = arms[number]
            for labels in subsets:
                value: float | None = None
                for seed in config.seeds:
                    file = run.cells / f"{number}-{arm.kind}-{labels}-{seed}.json"
                    rows = nested_rows(splits.train.classes, seed)[:labels]
                    watched = splits.watched if (arm.name, labels, seed) in shown else None
                    subset = replace(splits, train=splits.train.subset(rows), watched=watched)
                    values = contestant.settings(config.trials) if value is None else [value]
                    try:
                        fitted = _cell(contestant, subset, values, seed, file)
                        interrupt.obey()
                    except StoppedError:
                        kept = f"stopped; finished parts are in {run.path}: go on with --resume"
                        raise StoppedError(kept) from None
                    bar.advance(1, f"{arm.name}, {labels:,} labels, seed {seed}")
                    value = fitted.value
                    yield fitted


def _cell(
    contestant: Contestant, splits: Splits, values: Sequence[float], seed: int, file: Path
) -> Fitted:
    if file.exists():
        return _read_cell(file)
    fitted = contestant.fit(splits, values, seed)
    kept: dict[str, Any] = {"cell": asdict(fitted.cell), "value": fitted.value}
    if fitted.attention is not None:
        kept["attention"] = map_to_json(fitted.attention)
    write_json(file, kept)
    return fitted


def _read_cell(file: Path) -> Fitted:
    """Read a cell back; one of an earlier version has no attention."""
    try:
        kept = json.loads(file.read_text())
        attention = map_from_json(kept["attention"]) if "attention" in kept else None
        return Fitted(cell_from_json(kept["cell"]), kept["value"], attention)
    except (ValueError, LookupError, TypeError, RecursionError) as fault:
        raise WarmstartError(
            f"{file} is damaged ({fault}); delete it, and this part is trained again"
        ) from None


def _comparison(
    config: CompareConfig, plan: Plan, subsets: tuple[int, ...], cells: Sequence[Cell]
) -> Comparison:
    codes = {
        name: fingerprints_of(split.readable(config.pieces)) for name, split in plan.data.items()
    }
    known = {
        (run_name, name): split.seen_by(before, config.pieces)
        for run_name, before in plan.seen.items()
        for name, split in plan.data.items()
    }
    overlaps = [
        Overlap(a=shared.a, b=shared.b, distinct=shared.distinct, rows=shared.rows)
        for shared in find_shared(codes)
    ]
    for (run_name, name), found in known.items():
        distinct = len(np.unique(codes[name][found]))
        a = f"pretraining of {run_name}"
        overlaps.append(Overlap(a=a, b=name, distinct=distinct, rows=int(found.sum())))

    def split(name: str) -> Split:
        tainted = np.isin(codes[name], codes["train"])
        for run_name in plan.seen:
            tainted |= known[run_name, name]
        return Split(
            name="test" if name == "test" else "validation",
            file=plan.data[name].file,
            classes=plan.data[name].classes,
            shared=tuple(int(row) for row in np.flatnonzero(tainted)),
        )

    return Comparison(
        title=config.title,
        train_file=config.train,
        class_names=plan.names,
        class_counts=count_classes(plan.data["train"], plan.names),
        arms=tuple(contestant.describe() for contestant, _ in plan.contestants),
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
    config: CompareConfig, plan: Plan, comparison: Comparison, fitted: Sequence[Fitted]
) -> Contrast:
    """Set the first warm model beside its cold one."""
    maps = {found.cell.arm: found.attention for found in fitted if found.attention is not None}
    texts = plan.data[comparison.judge.name].readable(config.pieces)
    return contrast(comparison, texts, plan.contestants[0][1].watched, maps)


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
