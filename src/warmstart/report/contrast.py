"""A warm and a cold model side by side: what each looks at in one text, and where they disagree.

Never imports torch; knows nothing about how either was trained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmstart.report.attention_section import (
    Disagreement,
    attention_section,
    disagreements_section,
    find_disagreements,
)
from warmstart.report.formats import counted
from warmstart.report.markup import Section, paragraph
from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import Arm, Cell, Comparison


@dataclass(frozen=True, kw_only=True)
class Look:
    """What each arm's model looks at in one text."""

    row: int  # of the judging texts
    maps: Mapping[str, AttentionMap]
    said: Mapping[str, str]  # the label each arm gave
    truth: str


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One warm and one cold model, trained on all labels with the first seed."""

    warm: str  # names of the arms
    cold: str
    labels: int
    seed: int
    look: Look | None  # None: no text was short enough, or an earlier version trained them
    disagreements: Sequence[Disagreement]
    num_texts: int  # that judge


def rivals(arms: Sequence[Arm]) -> tuple[str, str]:
    """Return the first warm arm and its cold arm."""
    return next((arm.name, arm.cold) for arm in arms if arm.kind == "warm" and arm.cold)


def contrast(
    comparison: Comparison,
    texts: Sequence[str],
    watched: int | None,
    attention: Mapping[str, AttentionMap],
) -> Contrast:
    """Set the first warm arm against its cold arm; `watched` is the row that was looked at."""
    warm, cold = (_first_cell(comparison, arm) for arm in rivals(comparison.arms))
    return Contrast(
        warm=warm.arm,
        cold=cold.arm,
        labels=warm.labels,
        seed=warm.seed,
        look=_look(comparison, (warm, cold), watched, attention),
        disagreements=find_disagreements(
            texts,
            comparison.judge.classes,
            comparison.predictions(warm),
            comparison.predictions(cold),
            comparison.class_names,
        ),
        num_texts=len(texts),
    )


def _look(
    comparison: Comparison,
    cells: Sequence[Cell],
    row: int | None,
    attention: Mapping[str, AttentionMap],
) -> Look | None:
    """Return what was kept of one text; nothing where a model has nothing."""
    if row is None or not {cell.arm for cell in cells} <= attention.keys():
        return None
    names = comparison.class_names
    return Look(
        row=row,
        maps={cell.arm: attention[cell.arm] for cell in cells},
        said={cell.arm: names[comparison.predictions(cell)[row]] for cell in cells},
        truth=names[comparison.judge.classes[row]],
    )


def _first_cell(comparison: Comparison, arm: str) -> Cell:
    """Return the cell at the largest subset with the seed that was named first."""
    cells = comparison.cells_of(arm, comparison.subsets[-1])
    return next(cell for cell in cells if cell.seed == comparison.seeds[0])


def contrast_sections(found: Contrast) -> list[Section]:
    """Return the pictures of attention where there are any, and the disagreements."""
    learned = f"Both models learned from {counted(found.labels, 'label')} with seed {found.seed}."
    differ = disagreements_section(found.disagreements, found.warm, found.cold, found.num_texts)
    if found.look is None:
        learned += " Of their attention nothing was kept."
        return [_ending(differ, learned)]
    look = attention_section(found.look.maps, found.look.said, found.look.truth)
    chosen = f"{learned} The text was chosen by its length, before any training."
    return [_ending(look, chosen), _ending(differ, learned)]


def _ending(section: Section, sentence: str) -> Section:
    return Section(title=section.title, pieces=[*section.pieces, paragraph(sentence, css="soft")])
