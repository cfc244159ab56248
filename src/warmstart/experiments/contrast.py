"""One warm model beside its cold one: their attention on one text, and where they disagree."""

from collections.abc import Mapping, Sequence

from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import (
    Arm,
    AttentionExample,
    Cell,
    Comparison,
    Contrast,
    Disagreement,
)


def warm_and_cold(arms: Sequence[Arm]) -> tuple[str, str]:
    """Return the names of the first warm arm and of its cold arm."""
    return next((arm.name, arm.cold) for arm in arms if arm.kind == "warm" and arm.cold)


def contrast(
    comparison: Comparison,
    texts: Sequence[str],
    watched: int | None,
    attention: Mapping[str, AttentionMap],
) -> Contrast:
    """Contrast the first warm arm with its cold arm; `watched` is the row of the attention."""
    warm, cold = (_first_cell(comparison, arm) for arm in warm_and_cold(comparison.arms))
    return Contrast(
        warm=warm.arm,
        cold=cold.arm,
        labels=warm.labels,
        seed=warm.seed,
        example=_example(comparison, (warm, cold), watched, attention),
        disagreements=find_disagreements(
            texts,
            comparison.judge.classes,
            comparison.predictions(warm),
            comparison.predictions(cold),
            comparison.class_names,
        ),
        num_texts=len(texts),
    )


def _first_cell(comparison: Comparison, arm: str) -> Cell:
    """Return the arm's cell with the most labels and the first seed."""
    cells = comparison.cells_of(arm, comparison.subsets[-1])
    return next(cell for cell in cells if cell.seed == comparison.seeds[0])


def _example(
    comparison: Comparison,
    cells: Sequence[Cell],
    row: int | None,
    attention: Mapping[str, AttentionMap],
) -> AttentionExample | None:
    """Return the attention on one text; None where a model has none recorded."""
    if row is None or not {cell.arm for cell in cells} <= attention.keys():
        return None
    names = comparison.class_names
    return AttentionExample(
        row=row,
        label=names[comparison.judge.classes[row]],
        maps={cell.arm: attention[cell.arm] for cell in cells},
        predictions={cell.arm: names[comparison.predictions(cell)[row]] for cell in cells},
    )


def find_disagreements(
    texts: Sequence[str],
    classes: Sequence[int],
    first: Sequence[int],
    second: Sequence[int],
    names: Sequence[str],
) -> list[Disagreement]:
    """Return the texts on which two lists of predicted classes differ, in order."""
    return [
        Disagreement(text=text, label=names[true], first=names[a], second=names[b])
        for text, true, a, b in zip(texts, classes, first, second, strict=True)
        if a != b
    ]
