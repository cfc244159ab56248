"""`review`: which labels look wrong."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from warmstart import progress
from warmstart.data.copies import group_copies
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.data.outputs import write_table
from warmstart.dataframes import Tabular
from warmstart.errors import WarmstartError
from warmstart.files import write_lines
from warmstart.formats import one_line, quantity
from warmstart.labelling.held_out import (
    Doubt,
    comparison_doubts,
    comparison_folder,
    fitted_doubts,
)
from warmstart.labelling.settings import ReviewConfig
from warmstart.recipes.use import delimiter_like
from warmstart.report.html import Shown, table
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.labelled_data import read_all_texts, readable_rows
from warmstart.tasks.registry import choose_task, finetuning_task
from warmstart.textfiles import format_of

CONTRADICTED = "held-out models say otherwise"
TWO_LABELS = "the same text has another label elsewhere"
RARE = "no other text has this label"
SHOWN_CHARS = 120  # of a text on a line, and in a notebook
MOST_PAIRS = 5  # of classes that are mixed up


@dataclass(frozen=True)
class Suspect:
    """A label that looks wrong."""

    rank: int  # from 1, the most doubtful
    file: str
    line: int  # where its row begins; in Parquet and Excel, the number of the row
    text: str
    text2: str | None
    label: str
    suggested: str | None  # what it may be instead; None: nothing else is likely
    doubt: float | None  # from 0 to 1: models are sure of another label; None: none was asked
    reasons: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """Return columns of a table, or JSON values."""
        seconds = {} if self.text2 is None else {"text2": self.text2}
        return {
            "rank": self.rank,
            "file": self.file,
            "line": self.line,
            "text": self.text,
            **seconds,
            "label": self.label,
            "suggested": self.suggested,
            "doubt": self.doubt,
            "reason": "; ".join(self.reasons),
        }

    def text_line(self) -> str:
        """Return the suspect on one line: where it is, both labels, and the text."""
        cells = (f"{self.file}:{self.line}", self.label, self.suggested or "?", self.text)
        return "\t".join(map(one_line, cells))


@dataclass(frozen=True)
class MixedClasses:
    """Two classes of which texts with the first label look as if they were of the second."""

    label: str
    suggested: str
    num_texts: int


@dataclass(frozen=True)
class LabelReview(Shown, Tabular):
    """Labels that look wrong, the most doubtful first."""

    suspects: tuple[Suspect, ...]
    mixed: tuple[MixedClasses, ...]  # the pair with most texts first
    counts: dict[str, int]  # labels by the reason to doubt them
    num_texts: int
    out: Path | None = None  # the file written

    def __iter__(self) -> Iterator[Suspect]:
        return iter(self.suspects)

    def __len__(self) -> int:
        return len(self.suspects)

    def records(self) -> list[Mapping[str, Any]]:
        return [suspect.values() for suspect in self.suspects]

    def describe(self) -> str:
        """Say how many labels look wrong, and why."""
        reasons = ", ".join(f"{num:,} because {reason}" for reason, num in self.counts.items())
        listed = f"{len(self):,} of {quantity(self.num_texts, 'label')} listed"
        return f"{listed}{f': {reasons}' if reasons else ', none looks wrong'}"

    def pieces(self) -> list[str]:
        rows = [
            [str(s.rank), str(s.line), s.text[:SHOWN_CHARS], s.label, s.suggested or ""]
            for s in self
        ]
        headers = ["rank", "line", "text", "label", "suggested"]
        return [self.describe(), table(headers, rows, left=[2, 3, 4])]


def review(config: ReviewConfig) -> LabelReview:
    """Find the labels of a file that look wrong, and write them as a table."""
    config = choose_task(config)
    task = finetuning_task(config.task)
    if type(task).doubted_labels is FinetuningTask.doubted_labels:
        raise WarmstartError(
            f"--task {task.name}: review knows labels of whole texts, not those of "
            f"{task.description}"
        )
    data = read_all_texts(config, task)
    compared, texts = comparison_folder(config.from_run), readable_rows(data, config.pieces)
    groups = group_copies(fingerprints_of(texts))
    rare = _rare_rows(groups, task.fold_classes(data))
    if compared:
        doubts = comparison_doubts(config, compared, data, task)
    else:
        doubts = _doubt_others(config, data, task, rare)
    found = _suspects(config, data, doubts, rare, _rows_with_two_labels(texts, data.labels))
    if config.out:
        _write(config, Path(config.out), found)
    return found


def _rare_rows(groups: Sequence[Sequence[int]], classes: Sequence[str]) -> set[int]:
    """Return the rows of classes all of whose texts are copies of one, so that no fold has them."""
    occurs = Counter(name for rows in groups for name in {classes[row] for row in rows})
    return {row for row, name in enumerate(classes) if occurs[name] == 1}


def _doubt_others(
    config: ReviewConfig, data: Dataset, task: FinetuningTask, rare: set[int]
) -> list[Doubt]:
    """Return the doubts about the labels of all rows but the rare ones."""
    kept = [row for row in range(len(data)) if row not in rare]
    if not kept or len(set(map(str, data.subset(kept).labels))) < 2:
        raise WarmstartError(
            f"{data.file}: fewer than two labels have two different texts, so no model can judge "
            "them: label more texts"
        )
    doubts = fitted_doubts(config, data.subset(kept), task)
    return [Doubt(kept[doubt.row], doubt.answer, doubt.margin) for doubt in doubts]


def _rows_with_two_labels(texts: Sequence[str], labels: Sequence[Any]) -> dict[int, list[str]]:
    """Return the other labels of each text that has several, by row."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, code in enumerate(fingerprints_of(texts).texts.tolist()):
        rows[code].append(row)
    written = [label if isinstance(label, str) else ", ".join(label) for label in labels]
    others = {
        row: sorted({written[other] for other in copies} - {written[row]})
        for copies in rows.values()
        for row in copies
    }
    return {row: of_row for row, of_row in others.items() if of_row}


def _suspects(
    config: ReviewConfig,
    data: Dataset,
    doubts: Sequence[Doubt],
    rare: set[int],
    two_labels: dict[int, list[str]],
) -> LabelReview:
    """Put all suspects in order: what models doubt most first, then what they do not judge."""
    by_row = {doubt.row: doubt for doubt in doubts}
    ranked = sorted(by_row, key=lambda row: by_row[row].margin)
    rows = list(dict.fromkeys(chain(ranked, two_labels, sorted(rare))))[: config.num]
    reasons: dict[str, Container[int]] = {CONTRADICTED: by_row, TWO_LABELS: two_labels, RARE: rare}
    files, suspects = _file_of_rows(data), []
    for rank, row in enumerate(rows, 1):
        doubt, others = by_row.get(row), two_labels.get(row, [])
        suggested = doubt.answer if doubt else " or ".join(others) or None
        label = data.labels[row]
        suspects.append(
            Suspect(
                rank,
                files[row],
                data.lines[row],
                data.texts[row],
                None if data.seconds is None else data.seconds[row],
                label if isinstance(label, str) else ", ".join(label),
                suggested,
                None if doubt is None else round((1 - doubt.margin) / 2, 4),
                tuple(reason for reason, of_reason in reasons.items() if row in of_reason),
            )
        )
    counts = Counter(reason for suspect in suspects for reason in suspect.reasons)
    pairs = Counter((s.label, s.suggested) for s in suspects if CONTRADICTED in s.reasons)
    mixed = (MixedClasses(a, b or "", num) for (a, b), num in pairs.most_common(MOST_PAIRS))
    out = Path(config.out) if config.out else None
    return LabelReview(tuple(suspects), tuple(mixed), dict(counts), len(data), out)


def _file_of_rows(data: Dataset) -> list[str]:
    """Return the file of every row; labels in files of their own count as one file."""
    ends = list(accumulate(data.files.values()))
    if ends[-1] != len(data):  # each file of texts is listed with its file of labels
        return [data.file] * len(data)
    names = list(map(str, data.files))
    return [names[number] for number in np.searchsorted(ends, np.arange(len(data)), side="right")]


def _write(config: ReviewConfig, path: Path, found: LabelReview) -> None:
    config.refuse_existing()
    if format_of(path) == "lines":
        write_lines(path, (suspect.text_line() for suspect in found))
        return
    rows = [suspect.values() for suspect in found]
    if not rows:
        progress.say(f"no label looks wrong: {path} has no rows")
    write_table(path, rows, delimiter_like(config.train[0], config), config.raw_cells)
