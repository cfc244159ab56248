"""Labels that look wrong: those that every held-out model of a cross-validation contradicts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmstart.comparison.results import Cell, Comparison


@dataclass(frozen=True, kw_only=True)
class SuspectLabel:
    """A label that no held-out model agrees with."""

    row: int  # of the labelled texts
    label: str
    answer: str  # that most models give instead
    margin: float  # mean over the models, from 0 to -1: they are sure of another label


@dataclass(frozen=True, kw_only=True)
class SuspectLabels:
    """All of them, the most doubtful first, with what a report shows."""

    suspects: Sequence[SuspectLabel]
    num_models: int
    texts: Sequence[str]  # of all rows
    lines: Sequence[int]  # of their files


def contradicted_labels(
    comparison: Comparison, describe: Callable[[Any], str]
) -> list[SuspectLabel]:
    """Return the labels that every model with most labels contradicts, the most doubtful first."""
    cells = held_out_cells(comparison)
    if not cells:
        return []
    margins = np.mean([cell.margins for cell in cells], axis=0)
    answers = zip(*(comparison.predictions(cell) for cell in cells), strict=True)
    suspects = [
        SuspectLabel(
            row=row,
            label=describe(target),
            answer=Counter(map(describe, of_text)).most_common(1)[0][0],
            margin=float(margins[row]),
        )
        for row, (target, of_text) in enumerate(
            zip(comparison.scored_split.classes, answers, strict=True)
        )
        if target not in of_text
    ]
    return sorted(suspects, key=lambda suspect: suspect.margin)


def held_out_cells(comparison: Comparison) -> list[Cell]:
    """Return the cells that say something of every label; none without a cross-validation."""
    if not comparison.num_folds:
        return []
    largest = comparison.subsets[-1]
    return [cell for cell in comparison.cells if cell.labels == largest and cell.margins]


def suspect_labels(
    comparison: Comparison,
    texts: Sequence[str],
    lines: Sequence[int],
    describe: Callable[[Any], str],
) -> SuspectLabels | None:
    """Return what the report shows; None: no held-out model says anything of labels."""
    cells = held_out_cells(comparison)
    if not cells:
        return None
    suspects = contradicted_labels(comparison, describe)
    return SuspectLabels(suspects=suspects, num_models=len(cells), texts=texts, lines=lines)
