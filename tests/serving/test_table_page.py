"""Tables on the page, in a real browser: predicted, labelled by keys, saved after every label."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_pages import open_page

from command_line import MACHINE, succeed
from http_server import Server, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
]

ATTACK = "<img src=x onerror=alert(1)>"
PRESSED = """given => given === [...document.querySelectorAll('[aria-pressed="true"]')]
    .map((button) => button.lastChild.textContent).join(",")"""
ROWS = [("A fine book.", "=1+1"), (ATTACK, "two\nlines"), ("Dull, far too long.", "x;y")]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "to-label.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=";").writerows([("text", "note"), *ROWS])
    return path


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    complaints: list[str] = []
    opened = open_page(browser, server, complaints)
    yield opened
    opened.close()
    assert complaints == []


def _open(page: Any, path: Path) -> None:
    page.click("#tab-tables")
    page.set_input_files("#file", str(path))
    page.wait_for_selector("#table-tools", state="visible")


def _download(page: Any) -> list[list[str]]:
    with page.expect_download() as started:
        page.click("#download")
    content = Path(started.value.path()).read_bytes().decode()
    return list(csv.reader(io.StringIO(content, newline="")))


def _label(page: Any, key: str, place: str) -> None:
    page.keyboard.press(key)
    page.locator("#label-place", has_text=place).wait_for()


def test_a_file_comes_back_with_predictions(page: Any, server: Server, table: Path) -> None:
    _open(page, table)
    page.click("#predict")
    page.locator("#table-note", has_text="3 of 3").wait_for()
    names, *rows = _download(page)
    assert names == ["text", "note", "predicted", "probability"]
    texts = [text for text, _ in ROWS]
    answers = server.post("/classify", {"texts": texts}).json["predictions"]
    assert [row[2] for row in rows] == [answer["label"] for answer in answers]
    assert [row[:2] for row in rows] == [
        ["A fine book.", "'=1+1"],
        [ATTACK, "two\nlines"],
        list(ROWS[2]),
    ]
    assert page.locator("#preview img").count() == 0


def test_a_dropped_list_is_labelled_and_kept_by_the_browser(page: Any, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("one fine book\ntwo dull ones\nthree\n")
    _open(page, texts)
    page.click("#label-them")
    page.wait_for_selector("#label-buttons button")
    names = [text.split()[-1] for text in page.locator("#label-buttons button").all_inner_texts()]
    assert "The run says" in page.inner_text("#label-hint")
    _label(page, "1", "Text 2 of 3; 1 labelled")
    _label(page, "2", "Text 3 of 3; 2 labelled")
    page.fill("#label-new", "other <b>")
    page.press("#label-new", "Enter")
    page.locator("#label-place", has_text="3 labelled").wait_for()
    assert _download(page)[1:] == [
        ["one fine book", names[0]],
        ["two dull ones", names[1]],
        ["three", "other <b>"],
    ]
    page.reload()
    _open(page, texts)
    page.click("#label-them")
    assert "3 labels that this browser kept are back" in page.inner_text("#label-state")
    _label(page, "0", "2 labelled")


def test_another_file_of_the_same_name_gets_no_labels_back(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "to-label.txt"
    for content in ("one fine book\ntwo\n", "one dull book\nfour\n"):
        path.write_text(content)
        page.reload()
        _open(page, path)
        page.click("#label-them")
        page.wait_for_selector("#label-buttons button")
        assert page.inner_text("#label-place") == "Text 1 of 2; 0 labelled"
        _label(page, "1", "Text 2 of 2; 1 labelled")


def test_the_file_of_the_server_is_saved_after_every_label(
    browser: Any, warm: Path, table: Path
) -> None:
    complaints: list[str] = []
    with serving(f"{warm} --label {table}") as server:
        page = open_page(browser, server, complaints)
        page.wait_for_selector("#label-buttons button")
        assert page.inner_text("#label-text") == "A fine book."
        names = [
            text.split()[-1] for text in page.locator("#label-buttons button").all_inner_texts()
        ]
        _label(page, "2", "Text 2 of 3; 1 labelled")
        page.wait_for_selector("#label-buttons button")
        assert page.inner_text("#label-text") == ATTACK
        with table.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.reader(stream, delimiter=";"))
        assert rows == [
            ["text", "note", "label"],
            [*ROWS[0], names[1]],
            [*ROWS[1], ""],
            [*ROWS[2], ""],
        ]
        assert complaints == []
        table.write_bytes(table.read_bytes() + b"new;;\r\n")
        changed = table.read_bytes()
        page.keyboard.press("1")
        page.wait_for_selector("#problem", state="visible")
        assert "reload the page" in page.inner_text("#problem")
        assert page.inner_text("#label-state") == "not saved"
        assert table.read_bytes() == changed
        page.reload()
        page.locator("#label-place", has_text="of 4").wait_for()
        page.close()


def test_labels_beyond_nine_have_letters_and_are_known_before_any_answer(
    browser: Any, warm: Path, tmp_path: Path
) -> None:
    """A key means the same label before the run has answered as after it."""
    names = [f"label {number:02}" for number in range(12)]
    path = tmp_path / "many.csv"
    rows = [[f"text {number}", name] for number, name in enumerate(names)]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *rows, ("the last", "")])
    complaints: list[str] = []
    with serving(f"{warm} --label {path}") as server:
        page = open_page(browser, server, complaints)
        page.wait_for_selector("#label-buttons button")
        shown = page.locator("#label-buttons button").all_inner_texts()
        keys, labels = zip(*(text.split(maxsplit=1) for text in shown), strict=True)
        assert labels == ("negative", "positive", *names)
        assert keys == (*"123456789abcde",)
        _label(page, "e", "13 labelled")
        assert path.read_text().splitlines()[-1] == "the last,label 11"
        page.close()
    assert complaints == []


def test_a_text_gets_several_labels_from_a_run_of_several(
    browser: Any, masked: Path, tmp_path: Path
) -> None:
    sets = ("bad", "good", "bad,good")
    train = "".join(f"{labels}\t{labels} book {n}\n" for n in range(12) for labels in sets)
    (tmp_path / "train.tsv").write_text("labels\ttext\n" + train)
    (tmp_path / "new.csv").write_text("text\ngood\nbad\n")
    finetune = f"finetune --from {masked} --train {tmp_path}/train.tsv --task multilabel"
    succeed(f"{finetune} --epochs 1 -o {tmp_path}/run {MACHINE}")
    complaints: list[str] = []
    with serving(f"{tmp_path}/run --label {tmp_path}/new.csv") as server:
        page = open_page(browser, server, complaints)
        page.locator("#label-sets").wait_for()
        for key, given in (("1", "bad"), ("2", "bad,good"), ("1", "good")):
            page.keyboard.press(key)
            page.wait_for_function(PRESSED, arg=given)
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#label-place") == "Text 2 of 2; 1 labelled"
        page.click("#predict")
        page.locator("#table-note", has_text="2 of 2 rows predicted").wait_for()
        columns = page.locator("#preview th").all_inner_texts()
        assert columns == ["text", "label", "predicted"]  # no probability of a whole set
        assert (tmp_path / "new.csv").read_text().splitlines() == [
            "text,label",
            "good,good",
            "bad,",
        ]
        page.close()
    assert complaints == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\xff\xfe\x00x", "not UTF-8"),
        ("a.csv", b'text\n"open\n', "never closed"),
        ("a.csv", b"text\n", "has no rows"),
        ("a.csv", b"x," * 4_000 + b"\n" + b"a\n" * 9_000, "4001 columns are too many"),
        ("a.jsonl", b"".join(b'{"%d": 1}\n' % n for n in range(9_000)), "9000 columns are too"),
        ("a.jsonl", b"{\n", "a.jsonl: "),
        ("a.xlsx", b"PK", "save it as .csv"),
        ("a.txt", b"a\n" * 10_001, "more than 10000 rows"),
    ],
)
def test_a_file_that_cannot_be_read_gets_a_sentence(
    page: Any, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    page.click("#tab-tables")
    page.set_input_files("#file", str(path))
    page.wait_for_selector("#problem", state="visible")
    assert message in page.inner_text("#problem")
