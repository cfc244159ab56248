"""The header, the delimiter and the columns of a table, found or asked for."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.detection import MOST_COLUMNS
from warmstart.data.labelled import Dataset, read_labelled
from warmstart.data.tables import open_table
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

TEXTS = tuple(f"the book number {n} was rather long, I found" for n in range(12))


LABELS = ("pos", "neg") * 6


CELLS = ["text", "label", "avis", "", "1", "2", "pos", "a long text here", "é,", "a=b"]


def _table(path: Path, *columns: tuple[object, ...], delimiter: str = "\t") -> Path:
    lines = [delimiter.join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _check(read: Dataset) -> None:
    assert (read.texts, read.labels) == (TEXTS, LABELS)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("text", "label"),
        ("review", "sentiment"),
        ("Review", "SENTIMENT"),
        ("texte", "label"),
        ("Kundenmeinung", "label"),
        ("body", "Ausgang"),
        ("what they wrote", "what it was"),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_header_is_no_data(tmp_path: Path, text: str, label: str, is_turned: bool) -> None:
    columns = [(text, *TEXTS), (label, *LABELS)]
    read = read_labelled(_table(tmp_path / "a.tsv", *(columns[::-1] if is_turned else columns)))
    _check(read)
    assert f"tab-separated, header; text from {text!r}, label from {label!r}" in read.description


def test_a_header_over_numbers_is_no_data(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.tsv", ("was", *"abcdef"), ("wie", 1, 0, 1, 0, 1, 0))
    assert read_labelled(path).texts == tuple("abcdef")


@pytest.mark.parametrize("is_turned", [False, True])
def test_without_a_header_content_tells_text_from_label(tmp_path: Path, is_turned: bool) -> None:
    columns = [TEXTS, LABELS]
    read = read_labelled(_table(tmp_path / "a.tsv", *(columns[::-1] if is_turned else columns)))
    _check(read)
    assert f"no header; text from column {1 + is_turned}" in read.description


@pytest.mark.parametrize("first", ["neutral", "5"])
def test_a_label_that_occurs_once_is_no_header_over_a_sentence(tmp_path: Path, first: str) -> None:
    texts, labels = ("I do not know what to say.", *TEXTS), (first, *LABELS)
    assert len(read_labelled(_table(tmp_path / "a.tsv", labels, texts))) == 13


def test_row_numbers_are_left_out(tmp_path: Path) -> None:
    for name in ("", "Unnamed: 0", "id", "row"):
        numbers = (name, *range(12))
        _check(read_labelled(_table(tmp_path / "a.tsv", numbers, ("r", *TEXTS), ("l", *LABELS))))
    _check(read_labelled(_table(tmp_path / "a.tsv", tuple(range(1, 13)), LABELS, TEXTS)))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_every_delimiter_is_found(tmp_path: Path, delimiter: str, suffix: str) -> None:
    texts = tuple(f'"{text}"' for text in TEXTS)
    path = _table(
        tmp_path / f"a.{suffix}",
        ('"review"', *texts),
        ('"rating"', *LABELS),
        delimiter=delimiter,
    )
    _check(read_labelled(path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    _check(read_labelled(path))


def test_a_given_delimiter_is_kept(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.csv", ("text", "a,b"), ("label", "1,5"), delimiter="#")
    read = read_labelled(path, TableFormat(delimiter="#"))
    assert (read.texts, read.labels) == (("a,b",), ("1,5",))
    with pytest.raises(WarmstartError, match="--delimiter ';;' must be one character"):
        TableFormat(delimiter=";;")
    assert TableFormat(delimiter="tab").delimiter == "\t"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_another_encoding_is_asked_for(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text;label\nschön;gut\nübel;schlecht\n", encoding=encoding)
    with pytest.raises(WarmstartError, match=f"--encoding {encoding}"):
        read_labelled(path)
    read = read_labelled(path, TableFormat(encoding=encoding))
    assert read.texts == ("schön", "übel")
    with pytest.raises(WarmstartError, match="--encoding 'klingon' is unknown"):
        TableFormat(encoding="klingon")


def test_quoted_fields_of_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"say ""hi"""\tx\n"two\nlines"\ty\nplain "as" it\tx\n')
    assert read_labelled(path).texts == ('say "hi"', "two\nlines", 'plain "as" it')
    path.write_text('text\tlabel\n"as it is"\tx\n"so" they say\ty\n')
    assert read_labelled(path).texts == ('"as it is"', '"so" they say')


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\t\n\r\0", codec="utf-8")), st.just("x")
        ),
        min_size=1,
    )
)
def test_plain_tsv_fields_stay_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    path.write_text("text\tlabel\n" + "".join(f"-{text}\tx\n" for text in texts))
    assert [row.values["text"] for row in open_table(path).rows()] == [f"-{t}" for t in texts]


def test_columns_may_be_named_without_roles(tmp_path: Path) -> None:
    other = ("points", *(n % 3 for n in range(12)))
    path = _table(tmp_path / "a.csv", *(("w", *TEXTS), ("s", *LABELS), other), delimiter="|")
    for columns in (("w", "s"), ("s", "w"), ("text=w", "s"), ("label=S", "text=W")):
        _check(read_labelled(path, TableFormat(columns=columns)))


def test_a_missing_column_is_an_error_that_lists_the_others(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.tsv", ("review", *TEXTS), ("sentiment", *LABELS))
    for columns in (("text=body", "label=sentiment"), ("body", "sentiment")):
        with pytest.raises(WarmstartError, match=r"no column body \(there: review, sentiment\)"):
            read_labelled(path, TableFormat(columns=columns))


def _flags(error: WarmstartError) -> list[TableFormat]:
    """Return the settings that the flags in a message stand for."""
    words = [shlex.split(part) for part in re.findall(r"--columns ('[^']*'|\S+[^\s,])", str(error))]
    return [TableFormat(columns=tuple(next(csv.reader(word)))) for word in words]


def test_in_doubt_the_flag_to_paste_works(tmp_path: Path) -> None:
    stars = ("stars", *(1 + n % 5 for n in range(12)))
    path = _table(tmp_path / "a.tsv", ("review", *TEXTS), stars, ("sentiment", *LABELS))
    with pytest.raises(
        WarmstartError, match=r"a\.tsv: which column is the label .*\[review \| st"
    ) as e:
        read_labelled(path)
    (flag,) = _flags(e.value)
    _check(read_labelled(path, flag))


def test_a_first_row_that_may_be_either_is_asked_about(tmp_path: Path) -> None:
    words = ("joli", "laid", "beau", "affreux", "bon", "nul", "doux", "dur", "vif", "mou")
    labels = ("oui", "non") * 5
    path = _table(tmp_path / "a.tsv", ("polarité", *labels), ("mot", *words))
    with pytest.raises(WarmstartError, match="the first row may be a header or data") as caught:
        read_labelled(path)
    as_header, as_data = _flags(caught.value)
    assert read_labelled(path, as_header).labels == labels
    assert read_labelled(path, as_data).labels == ("polarité", *labels)


def test_a_column_that_is_constant_at_first_may_be_the_label(tmp_path: Path) -> None:
    ratings, texts = (1, 2, 3, 4) * 300, tuple(f"the book number {n}" for n in range(1200))
    path = _table(tmp_path / "a.tsv", (0,) * 1100 + (1,) * 100, ratings, texts)
    with pytest.raises(WarmstartError, match=r"which column is the label .*\[0 \| 1 \| the book"):
        read_labelled(path)
    path = _table(tmp_path / "b.tsv", (0,) * 400, ratings[:400], texts[:400])
    assert set(read_labelled(path).labels) == {"1", "2", "3", "4"}


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(
                st.sampled_from(
                    ["text", "label", "avis", "", "1", "2", "pos", "a long text here", "é,"]
                ),
                min_size=width,
                max_size=width,
            ),
            min_size=1,
            max_size=14,
        )
    )
)
def test_every_flag_in_a_message_settles_the_doubt(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("flags") / "a.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    try:
        open_table(path, roles=("text", "label"))
    except WarmstartError as error:
        for flag in _flags(error):
            assert open_table(path, flag, ("text", "label")).layout.positions.keys() == {
                "text",
                "label",
            }


def test_the_text_alone(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.tsv", ("label", *LABELS), ("avis", *TEXTS))
    assert [row.values["text"] for row in open_table(path).rows()] == list(TEXTS)
    same = TableFormat(columns=("label=missing", "text=avis"))
    assert [row.values["text"] for row in open_table(path, same).rows()] == list(TEXTS)
    assert next(open_table(path).rows()).record == {"label": "pos", "avis": TEXTS[0]}


@pytest.mark.parametrize(("other", "num_rows"), [("id", 3), ("id", 12), ("ISBN", 12)])
def test_a_column_of_different_values_is_never_suggested_as_the_label(
    other: str, num_rows: int, tmp_path: Path
) -> None:
    numbers = [f"{n}{n}" for n in range(num_rows)]
    path = _table(tmp_path / "new.tsv", (other, *numbers), ("text", *TEXTS[:num_rows]))
    with pytest.raises(WarmstartError, match="no column can be the label") as refusal:
        read_labelled(path)
    assert "--columns" not in str(refusal.value)
    assert "new.tsv" in str(refusal.value)
    assert f"[{other} | text]" in str(refusal.value)


def test_rows_with_keys_of_their_own(tmp_path: Path) -> None:
    """Cells that are absent take neither time nor memory; too many columns get a sentence."""
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"a longer text {n}", "label": n % 2} for n in range(500)]
    for n, row in enumerate(rows):
        row |= {f"key {n} {k}": 1 for k in range(30)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(read_labelled(path).texts) == 500
    for n, row in enumerate(rows):
        row |= {f"key {n} {k}": 1 for k in range(500)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        WarmstartError, match=r"a\.jsonl: \d+,\d+ columns in its first \d+ rows"
    ) as e:
        read_labelled(path)
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_row_of_too_many_columns(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(delimiter.join(map(str, range(MOST_COLUMNS + 1))))
    with pytest.raises(WarmstartError, match="a table may have 16,384"):
        read_labelled(path)
    path.write_text(delimiter.join(f"n{n % 9}" for n in range(MOST_COLUMNS)))
    with pytest.raises(WarmstartError) as caught:
        open_table(path, TableFormat(columns=("text=body",)))
    assert str(caught.value).endswith(
        "n8, n0, n1, …); use --columns ROLE=NAME with a name that is there"
    )
