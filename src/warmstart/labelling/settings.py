"""The settings of `suggest` and `review`."""

import os

from warmstart.data.columns import label_name
from warmstart.errors import WarmstartError
from warmstart.settings.base import advanced, argument, option
from warmstart.settings.shared import LabelledFiles, Machine, SplitTexts, TextColumn
from warmstart.settings.using import WrittenTable


class SuggestConfig(WrittenTable, TextColumn, SplitTexts, Machine):
    """A run and unlabelled texts in, those to label next out."""

    run: str = argument("run folder, or a comparison; without a classifier texts are spread alone")
    file: str | None = argument(
        "texts to choose from; default, or -: standard input", None, holds_rows=True
    )
    num: int = option("texts to suggest", 50, least=1)
    labelled: tuple[str, ...] = option(
        "labelled texts, or texts alone, not suggested again; may repeat", (), holds_rows=True
    )
    out: str | None = option(
        ".csv .tsv .xlsx .jsonl .parquet: the rows with new columns; "
        "any other name: one text per line",
        None,
        short="-o",
    )
    pool: int = advanced("texts to choose from; of more, a random sample", 20_000, least=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in filter(None, (self.file, *self.labelled)):
            if self.out and os.path.realpath(name) == os.path.realpath(self.out):
                raise WarmstartError(f"-o {self.out} is an input file; name another file")

    @property
    def label_column(self) -> str:
        """Return the column to fill in: that of --columns label=NAME, so that files fit."""
        return label_name(self.columns)


class ReviewConfig(WrittenTable, LabelledFiles, Machine):
    """Labelled texts in, labels that look wrong out."""

    train: tuple[str, ...] = option("labelled texts to review; may repeat", holds_rows=True)
    valid: str | None = option("more of them, as in compare --folds", None, holds_rows=True)
    from_run: str | None = option(
        "pretrained run, or a comparison with --folds; default: words alone", None, key="from"
    )
    unlabelled: tuple[str, ...] = option(
        "more text, without labels; may repeat", (), holds_rows=True
    )
    folds: int | None = option(
        "parts, each judged by models of the others; default: 5", None, least=2, most=20
    )
    num: int | None = option("labels to list, at most; default: all that look wrong", None, least=1)
    out: str | None = option(
        ".csv .tsv .xlsx .jsonl .parquet: a row for each label; any other name: one line for each",
        None,
        short="-o",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in filter(None, (*self.train, self.valid)):
            if self.out and os.path.realpath(name) == os.path.realpath(self.out):
                raise WarmstartError(f"-o {self.out} is an input file; name another file")
