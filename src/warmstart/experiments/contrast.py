"""One warm model beside its cold one: their attention on one text, and where they disagree."""

from collections.abc import Mapping, Sequence

from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import (
    Arm,
    AttentionExample,
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
    row: int | None,
    attention: Mapping[str, AttentionMap],
) -> Contrast:
    """Contrast the first warm arm with its cold arm; `row` is the text with recorded attention."""
    labels, seed = comparison.subsets[-1], comparison.seeds[0]
    cells = {
        cell.arm: cell for cell in comparison.cells if (cell.labels, cell.seed) == (labels, seed)
    }
    warm, cold = arms = warm_and_cold(comparison.arms)
    predicted = {arm: comparison.predictions(cells[arm]) for arm in arms}
    classes, names = comparison.scored_split.classes, comparison.class_names
    example = None
    if row is not None and set(arms) <= attention.keys():
        example = AttentionExample(
            row=row,
            label=names[classes[row]],
            maps={arm: attention[arm] for arm in arms},
            predictions={arm: names[predicted[arm][row]] for arm in arms},
        )
    return Contrast(
        warm=warm,
        cold=cold,
        labels=labels,
        seed=seed,
        example=example,
        disagreements=find_disagreements(texts, classes, predicted[warm], predicted[cold], names),
        num_texts=len(texts),
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
