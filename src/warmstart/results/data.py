"""What `data` reports: the content of files and the texts they share."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """The content of one file."""

    file: str
    rows: int
    skipped: int  # empty rows
    repeats: int  # rows whose text occurs in an earlier row
    unit: str  # of lengths: words or tokens
    shortest: int
    median: float
    long: float  # 95% of the texts are no longer
    longest: int
    units: int  # in total
    truncated: int | None  # texts longer than --max-length
    unknown: float | None  # share of unknown tokens
    labels: dict[str, int] | None


@dataclass(frozen=True)
class SharedTexts:
    """Texts that two files have in common."""

    a: str
    b: str
    distinct: int  # different texts that are in both
    rows: int  # rows of b with one of them


@dataclass(frozen=True, kw_only=True)
class SeenTexts:
    """Texts of one file that were in the training data of a run."""

    file: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """The content of files, and the texts they share."""

    files: tuple[FileReport, ...]
    shared: tuple[SharedTexts, ...]
    against: tuple[SeenTexts, ...]
    run: str | None
