"""A header is told from data in tables as people hold them, or the command asks."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from command_line import succeed
from labelled_exports import labelled_exports
from surveyed_tables import NUM_TABLES, surveyed_tables
from warmstart.data.headers import is_header
from warmstart.data.labelled import read_labelled
from warmstart.data.table_files import find_dialect
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

TEXTS = tuple(f"I bought the blue one and it lasted {n} days." for n in range(1, 21))
LABELS = ("good", "bad", "bad", "unclear") * 5


def _judge(rows: Sequence[Sequence[str]]) -> bool | None:
    first, *others = rows
    return is_header(first, list(zip(*others, strict=True)))


def test_2000_tables_are_read_as_they_are_meant() -> None:
    """No header is read as data, no data as a header; at most 5% stop the command."""
    judged: Counter[tuple[bool, bool | None]] = Counter()
    for table in chain(surveyed_tables(), labelled_exports(2000 - NUM_TABLES)):
        lines = table.content.splitlines()
        dialect = find_dialect(Path("a.csv"), lines, None)
        assert dialect.delimiter == table.delimiter, lines[:3]
        judged[table.has_header, _judge([row for _, row in dialect.split(lines)])] += 1
    assert judged[True, False] == judged[False, True] == 0
    assert judged[True, None] + judged[False, None] <= 100


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What did you think of our service?", "Category"),
        ("Q7. Why?", "Q7 coded"),
        ("Verbatim answer", "Coder A"),
        ("0", "1"),  # as pandas writes columns without names
    ],
)
@pytest.mark.parametrize("rare", [(), ("meh.",), ("Good", "bda")])
def test_a_header_over_labels_with_typing_errors(
    text: str, label: str, rare: tuple[str, ...]
) -> None:
    labels = (*LABELS[: len(LABELS) - len(rare)], *rare)
    assert _judge([(text, label), *zip(TEXTS, labels, strict=True)])


@pytest.mark.parametrize("first", ["good", "meh.", "7", "Good ", "not sure"])
def test_a_rare_label_does_not_make_data_a_header(first: str) -> None:
    rows = [("It broke on the first day, I would not buy it again.", first)]
    assert not _judge([*rows, *zip(TEXTS, LABELS, strict=True)])


def test_the_flag_names_a_header_with_a_comma(tmp_path: Path) -> None:
    words = ("joli", "laid", "beau", "affreux", "bon", "nul", "doux", "dur", "vif", "mou")
    path = tmp_path / "a.tsv"
    rows = [("mot", "polarité, codée"), *zip(words, ("oui", "non") * 5, strict=True)]
    path.write_text("".join(f"{word}\t{label}\n" for word, label in rows), encoding="utf-8")
    with pytest.raises(WarmstartError, match="may be a header or data") as doubt:
        read_labelled(path)
    (flag,) = re.findall(r"if it is a header add (.*), if it is data", str(doubt.value))
    assert succeed(f"data {path} {flag} --json").json["files"][0]["rows"] == 10


def test_a_header_that_cannot_be_named_is_to_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("mot\tmot\n" + "joli\toui\nlaid\tnon\n" * 4 + "beau\toui\nvert\tnon\n")
    with pytest.raises(WarmstartError, match="give each of its columns a name of its own"):
        read_labelled(path)


def test_a_decimal_comma_separates_no_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = zip(TEXTS, LABELS, strict=True)
    path.write_text("".join(f"{text};3,5;{label}\n" for text, label in rows))
    assert read_labelled(path, TableFormat(columns=("text", "_", "label"))).labels == LABELS
