"""Skewed classes: macro F1 beside accuracy, and the classes that are never predicted."""

from collections.abc import Callable
from dataclasses import replace

from warmstart.comparison.results import Comparison
from warmstart.comparison.summary import Summary
from warmstart.comparison.verdict import summarise

Built = tuple[Comparison, Summary]
NAMES = ("common", "rare", "rarest")


def skew(comparison: Comparison) -> Comparison:
    """Return a comparison whose texts and answers are mostly of the first class."""

    def shrink(classes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number if row % 10 == 0 else 0 for row, number in enumerate(classes))

    splits = tuple(replace(split, classes=shrink(split.classes)) for split in comparison.splits)
    cells = [
        replace(cell, predictions={name: shrink(p) for name, p in cell.predictions.items()})
        for cell in comparison.cells
    ]
    return replace(comparison, splits=splits, cells=tuple(cells))


def test_macro_f1_stands_beside_accuracy_where_classes_are_skewed(
    builder: Callable[..., Built],
) -> None:
    comparison, equal = builder(class_names=NAMES)
    assert "Macro F1" not in " ".join(equal.findings)
    skewed = summarise(skew(comparison))
    score = skewed.score("warm", 1600)
    assert score is not None
    assert score.scored.f1 is not None
    assert "The classes are skewed" in " ".join(skewed.findings)
    assert f"warm {100 * score.scored.f1:.1f}%" in " ".join(skewed.findings)


def test_classes_that_are_never_predicted_are_named(builder: Callable[..., Built]) -> None:
    comparison, summary = builder(class_names=NAMES)
    assert "never predicts" not in " ".join(summary.findings)
    cells = [
        replace(
            cell,
            predictions={
                name: tuple(min(answer, 1) for answer in answers)
                for name, answers in cell.predictions.items()
            },
        )
        for cell in comparison.cells
    ]
    missing = summarise(replace(comparison, cells=tuple(cells)))
    (never,) = [finding for finding in missing.findings if "never predicts" in finding]
    assert never.startswith(f"{missing.advice.arm} never predicts 'rarest', which")
    assert "--balance weights" in never
