"""Labelled tables as people have them, written from the same reviews.

`python tests/awkward_tables.py FOLDER` writes them.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import xlsxwriter

Rows = Sequence[tuple[str, str]]  # label, text


def reviews(number: int = 60) -> list[tuple[str, str]]:
    """Return reviews that need quoting in most formats."""
    praise = ['I loved it, "really"', "A great story; I could not stop", "Très beau, à lire"]
    blame = ["Dull, slow and long", 'I gave up: "boring" is too kind', "Schade ums Geld; übel"]
    return [
        ("positive", f"{praise[n % 3]} (book {n}).")
        if n % 2
        else ("negative", f"{blame[n % 3]} (book {n}).")
        for n in range(number)
    ]


def _csv(rows: Sequence[Sequence[object]], delimiter: str = ",", end: str = "\n") -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator=end).writerows(rows)
    return stream.getvalue()


def kaggle(folder: Path, rows: Rows) -> Path:
    """`review,sentiment` with commas in quotes."""
    path = folder / "kaggle.csv"
    path.write_text(_csv([("review", "sentiment"), *((text, label) for label, text in rows)]))
    return path


def excel(folder: Path, rows: Rows) -> Path:
    """A workbook with an empty row, numbers as labels and a column of dates."""
    path = folder / "excel.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Date", "Comment", "Rating"])
        for n, (label, text) in enumerate(rows):
            rating = 5 if label == "positive" else 1
            sheet.write_row(1 + n + n // 40, 0, [f"2024-01-{1 + n % 28:02}", text, rating])
    return path


def excel_utf8(folder: Path, rows: Rows) -> Path:
    """Excel's "CSV UTF-8": a byte-order mark, semicolons, empty cells at the end of a row."""
    path = folder / "excel-utf8.csv"
    table = [("Text", "Label", "", ""), *((text, label, "", "") for label, text in rows)]
    path.write_bytes(b"\xef\xbb\xbf" + _csv(table, ";", "\r\n").encode())
    return path


def german_excel(folder: Path, rows: Rows) -> Path:
    """German Excel's "CSV": semicolons and the encoding of Windows."""
    path = folder / "german-excel.csv"
    table = [("Bewertungstext", "Klasse"), *((text, label) for label, text in rows)]
    path.write_bytes(_csv(table, ";", "\r\n").encode("cp1252"))
    return path


def pandas_index(folder: Path, rows: Rows) -> Path:
    """`DataFrame.to_csv` with its index, which has no name."""
    path = folder / "pandas-index.csv"
    table = [(n, text, label) for n, (label, text) in enumerate(rows)]
    path.write_text(_csv([("", "avis", "note"), *table]))
    return path


def json_lines(folder: Path, rows: Rows) -> Path:
    """JSON lines with other keys, and numbers as labels."""
    path = folder / "other-keys.jsonl"
    records = [
        {
            "reviewerID": f"A{n:04}",
            "overall": 5.0 if label == "positive" else 1.0,
            "reviewText": text,
        }
        for n, (label, text) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pandas_parquet(folder: Path, rows: Rows) -> Path:
    """`DataFrame.to_parquet` of a filtered frame: its index, and times in nanoseconds."""
    path = folder / "pandas.parquet"
    table = pa.table(
        {
            "content": [text for _, text in rows],
            "when": pa.array(range(len(rows)), pa.timestamp("ns")),
            "category": pa.array([label for label, _ in rows]).dictionary_encode(),
            "__index_level_0__": [3 * n for n in range(len(rows))],
        }
    )
    pq.write_table(table, path)
    return path


def quoted_tsv(folder: Path, rows: Rows) -> Path:
    """Tabs, with quotes around fields that contain quotes."""
    path = folder / "quoted.tsv"
    table = [("sentence", "label"), *((text, label) for label, text in rows)]
    path.write_text(_csv(table, "\t"))
    return path


def labels_first(folder: Path, rows: Rows) -> Path:
    """No header, the label first."""
    path = folder / "labels-first.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    return path


def stray_spaces(folder: Path, rows: Rows) -> Path:
    """Labels typed by hand, with spaces around them."""
    path = folder / "stray-spaces.csv"
    spaced = [(text, f" {label} " if n % 3 else label) for n, (label, text) in enumerate(rows)]
    path.write_text(_csv([("Message", "Class"), *spaced]))
    return path


def empty_rows(folder: Path, rows: Rows) -> Path:
    """Blank lines, rows of empty cells, a text without a label and a label without a text."""
    path = folder / "empty-rows.csv"
    lines = _csv([("body", "target"), *((text, label) for label, text in rows)]).split("\n")
    lines[10:10] = ["", ",", '"Not rated, yet",', ",positive"]
    path.write_text("\n".join(lines))
    return path


def mixed_ends(folder: Path, rows: Rows) -> Path:
    """Two files pasted together: both kinds of line ends, a bar between the fields."""
    path = folder / "mixed-ends.csv"
    table = [("review", "sentiment"), *((text, label) for label, text in rows)]
    lines = _csv(table, "|").splitlines()
    path.write_bytes("".join(f"{x}{('', chr(13))[n % 2]}\n" for n, x in enumerate(lines)).encode())
    return path


def one_class_missing(folder: Path, rows: Rows) -> Path:
    """A class with one example: it cannot be both learned and validated."""
    path = folder / "one-class-missing.tsv"
    table = [*rows, ("neutral", "Neither good nor bad (book 99).")]
    path.write_text("stars\tcomment\n" + "".join(f"{label}\t{text}\n" for label, text in table))
    return path


FILES: tuple[Callable[[Path, Rows], Path], ...] = (
    kaggle,
    excel,
    excel_utf8,
    german_excel,
    pandas_index,
    json_lines,
    pandas_parquet,
    quoted_tsv,
    labels_first,
    stray_spaces,
    empty_rows,
    mixed_ends,
    one_class_missing,
)


if __name__ == "__main__":
    destination = Path(sys.argv[1])
    destination.mkdir(parents=True, exist_ok=True)
    for write in FILES:
        write(destination, reviews())
