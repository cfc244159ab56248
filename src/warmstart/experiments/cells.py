"""Train the cells of a comparison; finished ones are saved, and read back after an interruption.

A cell depends only on its own arm, subset and seed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import StoppedError, WarmstartError
from warmstart.experiments.arms import ExperimentArm, FittedCell, Splits
from warmstart.experiments.contrast import warm_and_cold
from warmstart.experiments.plan import ExperimentPlan
from warmstart.files import write_json
from warmstart.results.attention import map_from_json, map_to_json
from warmstart.results.comparison import cell_from_json
from warmstart.runs.folder import RunFolder
from warmstart.seeds import shuffled
from warmstart.settings.finetuning import CompareConfig
from warmstart.training.interrupt import listening


def subset_sizes(config: CompareConfig, num_texts: int, num_classes: int) -> tuple[int, ...]:
    """Return the sizes of the label subsets, rising."""
    sizes = {num_texts if size == "all" else int(size) for size in config.labels}
    for size in sizes:
        if not num_classes <= size <= num_texts:
            raise WarmstartError(
                f"--labels {size} is not possible: {', '.join(config.train)} has {num_texts:,} "
                f"texts in {num_classes} classes"
            )
    return tuple(sorted(sizes))


def nested_rows(classes: Sequence[int], seed: int) -> list[int]:
    """Order rows so that every prefix has the classes in proportion, each at least once."""
    ranks: dict[int, float] = {}
    for number in sorted(set(classes)):
        rows = [row for row, row_class in enumerate(classes) if row_class == number]
        for rank, member in enumerate(shuffled(len(rows), seed, "subset", number)):
            ranks[rows[member]] = (rank + 0.5) / len(rows) if rank else number - len(classes)
    return sorted(ranks, key=lambda row: (ranks[row], row))


def train_cells(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, subsets: Sequence[int]
) -> Iterator[FittedCell]:
    """Yield every cell, training those that are not finished."""
    total = len(plan.arms) * len(subsets) * len(config.seeds)
    described = [arm.describe() for arm, _ in plan.arms]
    with_attention = {(name, subsets[-1], config.seeds[0]) for name in warm_and_cold(described)}
    with listening() as interrupt, progress.bar("comparing", total, "model") as bar:
        for (number, (arm, splits)), labels in product(enumerate(plan.arms), subsets):
            values = arm.settings(config.trials)  # tried with the first seed only
            for seed in config.seeds:
                rows = nested_rows(splits.train.classes, seed)[:labels]
                is_shown = (arm.name, labels, seed) in with_attention
                subset = replace(
                    splits,
                    train=splits.train.subset(rows),
                    attention_row=splits.attention_row if is_shown else None,
                )
                file = run.cells / f"{number}-{described[number].kind}-{labels}-{seed}.json"
                try:
                    fitted = _cell(arm, subset, values, seed, file)
                    interrupt.obey()
                except StoppedError as stop:
                    message = f"stopped; finished cells are in {run.path}: continue with --resume"
                    raise StoppedError(message, stop.signal_number) from None
                bar.advance(1, f"{arm.name}, {labels:,} labels, seed {seed}")
                values = [fitted.value]
                yield fitted


def _cell(
    arm: ExperimentArm, splits: Splits, values: Sequence[float], seed: int, file: Path
) -> FittedCell:
    if file.exists():
        return _read_cell(file)
    fitted = arm.fit(splits, values, seed)
    content: dict[str, Any] = {"cell": asdict(fitted.cell), "value": fitted.value}
    if fitted.attention is not None:
        content["attention"] = map_to_json(fitted.attention)
    write_json(file, content)
    return fitted


def _read_cell(file: Path) -> FittedCell:
    try:
        content = json.loads(file.read_text())
        attention = map_from_json(content["attention"]) if "attention" in content else None
        return FittedCell(cell_from_json(content["cell"]), content["value"], attention)
    except (ValueError, LookupError, TypeError, RecursionError) as problem:
        raise WarmstartError(
            f"{file} is damaged ({problem}); delete it, and this cell is trained again"
        ) from None
