"""What `data` reports: the content of files and the texts they share."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """The content of one file."""

    file: str
    rows: int
    skipped: int  # empty rows
    repeats: int  # rows whose text occurs in an earlier row
    near_repeats: int  # rows that are near-copies of earlier ones
    unit: str  # of lengths: words or tokens
    shortest: int
    median: float
    long: float  # 95% of the texts are no longer
    longest: int
    units: int  # in total
    truncated: int | None  # texts longer than --max-length
    unknown: float | None  # share of unknown tokens
    labels: dict[str, int] | None


@dataclass(frozen=True, kw_only=True)
class NearCopy:
    """A text that is nearly the same as another."""

    text: str
    original: str | None  # None: only fingerprints of it are kept


@dataclass(frozen=True, kw_only=True)
class SharedTexts:
    """Texts of a file that also occur in another file, or in the training data of a run."""

    a: str  # the other file, or the run
    b: str
    distinct: int  # different texts that are in both
    rows: int  # rows of b with one of them
    near: int  # rows of b that are near-copies; copies do not count
    copy: str | None  # the first copy
    near_copy: NearCopy | None  # the first near-copy


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """The content of files, and the texts they share."""

    files: tuple[FileReport, ...]
    shared: tuple[SharedTexts, ...]
    against: tuple[SharedTexts, ...]  # texts in the training data of a run
    run: str | None
