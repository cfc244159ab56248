"""The settings of input files: which columns hold what, and how texts are separated."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option


@dataclass(frozen=True, kw_only=True)
class TextColumn(Settings):
    """The column of a table that holds the texts."""

    columns: tuple[str, ...] = option(
        ("text",), help="column that holds the text", comma_separated=True, metavar="NAMES"
    )


@dataclass(frozen=True, kw_only=True)
class Documents(Settings):
    """How files of plain text are split into documents."""

    document: Literal["auto", "line", "blank"] = option(
        "auto", help="end of a document in .txt: line or blank line"
    )


@dataclass(frozen=True, kw_only=True)
class SplitTexts(Settings):
    """Whether texts are split into pieces already."""

    pieces: bool = option(False, help="texts are already split into pieces")


@dataclass(frozen=True, kw_only=True)
class LabelledColumns(SplitTexts):
    """How labelled texts are written in tables."""

    columns: tuple[str, ...] = option(
        (), help="columns in file order, e.g. label,text", comma_separated=True, metavar="NAMES"
    )


@dataclass(frozen=True, kw_only=True)
class LabelledFiles(LabelledColumns):
    """The labelled texts to train on and to validate on."""

    train: str = option(help="labelled texts to train on")
    valid: str = option(help="labelled texts to validate on")
    train_labels: str | None = option(None, help="labels of --train, one per line")
    valid_labels: str | None = option(None, help="labels of --valid, one per line")
