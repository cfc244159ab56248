"""Two models side by side: where the best two arms disagree, and warm and cold on one text."""

from collections.abc import Mapping, Sequence

from warmstart.results.attention_weights import AttentionMap
from warmstart.results.comparison import (
    Arm,
    AttentionExample,
    Comparison,
    Contrast,
    Disagreement,
)
from warmstart.results.summary import Summary


def attention_arms(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return the names of the first warm arm and of its cold arm, of those that are compared."""
    names = {arm.name for arm in arms}
    warm = next((arm for arm in arms if arm.kind == "warm"), None)
    return () if warm is None else tuple(n for n in (warm.name, warm.cold) if n in names)


def contrast(comparison: Comparison, summary: Summary, texts: Sequence[str]) -> Contrast:
    """Contrast the two arms that validation prefers with all labels, in the first seed."""
    labels, seed = comparison.subsets[-1], comparison.seeds[0]
    first, second = summary.preferred(labels)[:2]
    cells = {c.arm: c for c in comparison.cells if (c.labels, c.seed) == (labels, seed)}
    a, b = (comparison.predictions(cells[arm]) for arm in (first, second))
    classes, names = comparison.scored_split.classes, comparison.class_names
    return Contrast(
        first=first,
        second=second,
        labels=labels,
        seed=seed,
        disagreements=find_disagreements(texts, classes, a, b, names),
        num_texts=len(texts),
        chosen_on=comparison.chosen_on,
    )


def attention_example(
    comparison: Comparison, row: int | None, attention: Mapping[str, AttentionMap]
) -> AttentionExample | None:
    """Return the recorded attention on one text of the scored split; None without a record."""
    arms = attention_arms(comparison.arms)
    if row is None or not arms or not set(arms) <= attention.keys():
        return None
    labels, seed = comparison.subsets[-1], comparison.seeds[0]
    names, classes = comparison.class_names, comparison.scored_split.classes
    cells = {c.arm: c for c in comparison.cells if (c.labels, c.seed) == (labels, seed)}
    return AttentionExample(
        row=row,
        label=names[classes[row]],
        labels=labels,
        seed=seed,
        maps={arm: attention[arm] for arm in arms},
        predictions={arm: names[comparison.predictions(cells[arm])[row]] for arm in arms},
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
