"""The JSON files of a run as dataclasses: what is read from each has its type."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.data.fingerprints import PackedFingerprints
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.base import Choice


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """config.json: what a run was made with. A task adds entries of its own."""

    command: str
    settings: dict[str, Any]
    model: dict[str, Any]
    task: str | None = None  # None: the results of a comparison
    arm: str | None = None  # of a classifier
    in_force: dict[str, Choice] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    pairs: bool | None = None  # whether its texts have a second text; None: not known
    lengths: tuple["Length", ...] = ()  # every number of steps it had, the first one first
    within_minutes: "Limit | None" = None  # how much of a comparison is trained
    source: "HubSource | None" = None  # of an imported model


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """Where on a model hub an imported model came from."""

    name: str
    revision: str  # the commit, which never changes
    licence: str | None  # as the model's card states it

    def __str__(self) -> str:
        licence = f"licence {self.licence}" if self.licence else "its card names no licence"
        return f"{self.name}, revision {self.revision[:12]}, {licence}"


@dataclass(frozen=True, kw_only=True)
class Length:
    """The number of steps of a run, and the step at which it was fixed."""

    from_step: int
    steps: int


@dataclass(frozen=True, kw_only=True, order=True)
class CellName:
    """One arm, one label subset and one seed of a comparison."""

    arm: str
    labels: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How much of a comparison is trained: all that was asked for, or what fits into minutes."""

    trials: int
    dropped: tuple[CellName, ...] = ()  # cells that are not in the report


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that a run was trained on."""

    path: str
    sha256: str
    earlier: tuple[str, ...] = ()  # checksums that it had before it was changed


@dataclass(frozen=True, kw_only=True)
class InputFiles:
    """The files that data.json lists."""

    files: tuple[InputFile, ...]
    valid: "InputFiles | None" = None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A training, as a later run records it."""

    fingerprints: PackedFingerprints
    unrecorded: bool = False  # whether it began with an imported model
    tokens_seen: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class UnreadRows:
    """The rows of labelled files that were left out, and the texts that were cut."""

    without_text: int = 0
    without_label: int = 0
    truncated: int = 0

    def __str__(self) -> str:
        parts = {
            f"{quantity(self.without_text, 'row')} without text": self.without_text,
            f"{quantity(self.without_label, 'row')} without label": self.without_label,
            f"{quantity(self.truncated, 'text')} cut": self.truncated,
        }
        return ", ".join(filter(parts.get, parts))


@dataclass(frozen=True, kw_only=True)
class DataFile(Stage):
    """data.json: the texts of a run, and of the runs that it started from."""

    lineage: tuple[Stage, ...] = ()
    rows: int = 0
    validated: PackedFingerprints | None = None  # labelled texts that it was not trained on
    unread: UnreadRows = UnreadRows()


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """A test evaluation."""

    sha256: str | None = None  # of the test file
    file: str = ""
    when: str = ""
    checkpoint: str = "best"
    scores: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A 95% interval of a figure."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TestFacts:
    """What the scores of a test hold besides figures."""

    interval: Span | None = None  # of the main figure
    intervals: dict[str, Span] = field(default_factory=dict)  # by figure
    seen_in_training: int | None = None  # None: not checked
    nearly_seen_in_training: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScoresFile:
    """scores.json: the validation scores of a finished run, and every test evaluation."""

    valid: dict[str, float] | None = None  # None: not finished
    tokens_seen: int = 0
    elapsed_s: float = 0.0
    faults: tuple[int, ...] = ()  # steps taken again: something in them was not finite
    overflows: int = 0  # steps that changed nothing: their gradient was too large for fp16
    labels: int = 0  # that a model of a comparison took
    trained_on: int = 0  # of these labels; it was validated on the others
    scored_labels: int | None = None  # of the models with these scores, where it took more
    seed: int = 0
    compared: float = 0.0  # the score by which it was the best of its arm; higher is better
    ledger: tuple[LedgerEntry, ...] = ()


class Figures(dict[str, float]):
    """The figures of a file by name; one that is missing is an error that names it."""

    def __init__(self, figures: Mapping[str, float], file: Path) -> None:
        super().__init__(figures)
        self.file = file

    def __missing__(self, name: str) -> float:
        raise WarmstartError(f"{self.file} has no '{name}'")


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the lines of a metrics file; a line cut off by a crash is left out."""
    if not path.is_file():
        return []
    parsed = (parse_line(line) for line in path.read_bytes().splitlines())
    return [line for line in parsed if line is not None]


def parse_line(line: bytes) -> dict[str, float] | None:
    """Return the finite figures of one line; None: the line is cut off."""
    try:
        figures = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(figures, dict):
        return None
    finite = {name: value for name, value in figures.items() if _is_figure(value)}
    return finite if isinstance(finite.get("step"), int) else None


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
