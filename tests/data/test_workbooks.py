"""Workbooks: cells as texts, and files that claim more than they hold."""

import gzip
import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import xlsxwriter

from warmstart.data.detection import MOST_COLUMNS
from warmstart.data.tables import Row, open_table
from warmstart.data.workbooks import read_workbook
from warmstart.errors import WarmstartError

SHEET = "xl/worksheets/sheet1.xml"
ROWS = [("text", "label", "n"), (2012, 1, None), ("a", 2.0, 7), (), (0.5, True)]
ODS_BODY = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body>'
    '<office:spreadsheet><table:table table:name="a">{}</table:table></office:spreadsheet>'
    "</office:body></office:document-content>"
)
MANIFEST = (
    '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<m:file-entry m:full-path="/" m:media-type="{}"/></m:manifest>'
)
ODS_CELL = '<table:table-cell office:value-type="string"{}><text:p>{}</text:p></table:table-cell>'


def _workbook(path: Path, *rows: tuple[object, ...], top: int = 0, left: int = 0) -> Path:
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate(rows, top):
            sheet.write_row(number, left, row)
    return path


def _cells(path: Path, cells: Mapping[tuple[int, int], str]) -> Path:
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        for position, text in cells.items():
            sheet.write(*position, text)
    return path


def _edit(path: Path, name: str, change: Callable[[str], str]) -> Path:
    """Change one file inside a workbook."""
    with zipfile.ZipFile(path) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    content[name] = change(content[name].decode()).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in content.items():
            archive.writestr(entry, data)
    return path


def _ods(path: Path, rows: str) -> Path:
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("META-INF/manifest.xml", MANIFEST.format(kind))
        archive.writestr("content.xml", ODS_BODY.format(rows))
    return path


def _ods_row(*texts: str) -> str:
    return f"<table:table-row>{''.join(ODS_CELL.format('', t) for t in texts)}</table:table-row>"


def _rows(path: Path) -> list[Row]:
    return list(open_table(path, roles=("text", "label")).rows())


def _values(path: Path) -> list[tuple[object, object]]:
    return [(row.values["text"], row.values["label"]) for row in _rows(path)]


def test_cells_of_a_workbook_are_texts(tmp_path: Path) -> None:
    path = _workbook(tmp_path / "a.xlsx", *ROWS)
    assert _values(path) == [("2012", "1"), ("a", "2"), ("", ""), ("0.5", "true")]
    assert [row.number for row in _rows(path)] == [2, 3, 4, 5]
    (tmp_path / "b.xlsx.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert _values(tmp_path / "b.xlsx.gz") == _values(path)


def test_a_table_may_begin_anywhere_in_its_sheet(tmp_path: Path) -> None:
    path = _workbook(tmp_path / "a.xlsx", *ROWS, top=7, left=3)
    assert _values(path) == _values(_workbook(tmp_path / "b.xlsx", *ROWS))
    assert [row.number for row in _rows(path)] == [9, 10, 11, 12]


def test_open_document(tmp_path: Path) -> None:
    rows = _ods_row("text", "label") + _ods_row("a fine book", "good")
    assert _values(_ods(tmp_path / "a.ods", rows)) == [("a fine book", "good")]


def test_without_calamine_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _workbook(tmp_path / "a.xlsx", ("text", "label"), ("a", "b"))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(WarmstartError, match=r"pip install 'warmstart\[excel\]'"):
        _rows(path)


def test_a_workbook_that_expands_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _workbook(tmp_path / "a.xlsx", *[("text", "label")] * 5000)
    monkeypatch.setattr("warmstart.textfiles.SAFE_BYTES", 1000)
    monkeypatch.setattr("warmstart.textfiles.MAX_EXPANSION", 2)
    with pytest.raises(WarmstartError, match="decompresses to more than"):
        _rows(path)


def test_a_size_that_lies_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 128 MB that says it has 100 bytes meets the limit of memory, or is found out."""
    monkeypatch.setattr("warmstart.data.workbooks.SAFE_MEMORY", 1 << 27)
    path = _cells(tmp_path / "a.xlsx", {(0, 0): "text"})
    strings = "xl/sharedStrings.xml"
    huge = "<si><t>" + "a" * (1 << 27) + "</t></si>"
    _edit(path, strings, lambda xml: xml.replace("</sst>", f"{huge}</sst>"))
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        size = archive.getinfo(strings).file_size
    path.write_bytes(whole.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(WarmstartError, match=r"a\.xlsx: "):
        list(read_workbook(path))


def test_one_cell_at_the_far_corner_is_one_cell(tmp_path: Path) -> None:
    path = _cells(tmp_path / "a.xlsx", {(1_048_575, 16_383): "text"})
    assert list(read_workbook(path)) == [(1_048_576, ["text"])]


def test_two_cells_at_opposite_corners_get_one_sentence(tmp_path: Path) -> None:
    """The library takes 550 GB for the cells between them, and ends its process."""
    path = _cells(tmp_path / "a.xlsx", {(0, 0): "text", (1_048_575, 16_383): "label"})
    with pytest.raises(WarmstartError, match=r"takes far more memory .* save the sheet as CSV"):
        _rows(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<row r="1"', '<row r="999999999"'),
        ('r="A1"', 'r="A999999999"'),
        ('r="A1"', 'r="XFE1"'),
        ('r="A1"', 'r="ZZZZZZ1"'),
        ('r="A1"', 'r="A99999999999999999999"'),
    ],
)
def test_positions_beyond_all_sheets(tmp_path: Path, old: str, new: str) -> None:
    path = _cells(tmp_path / "a.xlsx", {(0, 0): "text"})
    _edit(path, SHEET, lambda xml: xml.replace(old, new))
    try:
        assert [cells for _, cells in read_workbook(path)] == [["text"]]  # the row alone is wrong
    except WarmstartError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017


def test_a_claim_of_dimension_is_no_memory(tmp_path: Path) -> None:
    path = _workbook(tmp_path / "a.xlsx", *ROWS)
    _edit(path, SHEET, lambda xml: xml.replace('ref="A1:C5"', 'ref="A1:XFD1048576"'))
    assert len(_values(path)) == 4


def test_the_first_of_a_thousand_sheets(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        for number in range(1000):
            book.add_worksheet().write_row(0, 0, ["text", f"label {number}"])
    assert list(read_workbook(tmp_path / "a.xlsx")) == [(1, ["text", "label 0"])]


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    path = _cells(tmp_path / "a.xlsx", {(0, 0): "text"})
    levels = "".join(
        f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol" * 10}">' for n in range(12)
    )
    external = '<!ENTITY file SYSTEM "file:///etc/passwd">'

    def bomb(xml: str) -> str:
        declared = xml.replace("<sst ", f"<!DOCTYPE sst [{levels}{external}]><sst ", 1)
        return declared.replace("<t>text</t>", "<t>&l11;&file;</t>")

    _edit(path, "xl/sharedStrings.xml", bomb)
    try:
        text = str(list(read_workbook(path)))
    except WarmstartError:
        text = ""
    assert "root:" not in text
    assert len(text) < 1000


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write_formula(0, 0, "='http://127.0.0.1:9/[b.xlsx]a'!A1", None, "cached")
        sheet.write_url(1, 0, "file:///etc/passwd", None, "link")
    assert list(read_workbook(path)) == [(1, ["cached"]), (2, ["link"])]


def test_repeated_cells_are_limited(tmp_path: Path) -> None:
    repeat = ' table:number-{}-repeated="2000000000"'
    cell = ODS_CELL.format(repeat.format("columns"), "text")
    path = _ods(tmp_path / "a.ods", f"<table:table-row>{cell}</table:table-row>")
    assert list(read_workbook(path)) == [(1, ["text"] * MOST_COLUMNS)]  # the library stops there
    cell = ODS_CELL.format("", "text")
    row = f"<table:table-row{repeat.format('rows')}>{cell}</table:table-row>"
    with pytest.raises(WarmstartError, match=r"from row 1 to 1,048,576 .* almost empty; delete"):
        list(read_workbook(_ods(path, row)))


def test_a_cell_far_below_the_table(tmp_path: Path) -> None:
    path = _cells(tmp_path / "a.xlsx", {(0, 0): "text", (1_000_000, 3): "label"})
    with pytest.raises(WarmstartError, match=r"from row 1 to 1,000,001 .* save the sheet as CSV"):
        list(read_workbook(path))
