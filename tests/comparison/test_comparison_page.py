import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from warmstart.comparison.report import comparison_sections, write_comparison_page
from warmstart.report.html import Section, bullets, table, write_page

EVIL = '<script>alert("x")</script>'
VOID = {"meta", "br", "path", "use", "rect"}


class Outline(HTMLParser):
    """Collects ids, tags and visible text, and checks that tags close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.references: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids[value or ""] += 1
            found = re.findall(r"url\(#([^)]+)\)", value or "")
            if name.endswith("href"):
                assert (value or "").startswith("#"), value
                found.append((value or "")[1:])
            self.references.update(found)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(path: Path) -> Outline:
    return Outline(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(built: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_comparison_page(*built, folder / "report.html")


def test_the_page_is_well_formed_and_stands_alone(page: Path) -> None:
    found = outline(page)
    assert found.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    text = page.read_text(encoding="utf-8")
    assert "@import" not in text
    assert "url(http" not in text
    assert list(page.parent.iterdir()) == [page]


def test_ids_are_unique_over_all_figures_and_references_lead_somewhere(page: Path) -> None:
    found = outline(page)
    assert found.tags["svg"] >= 3
    assert set(found.ids.values()) == {1}
    assert found.references <= set(found.ids)


def test_the_page_says_what_the_summary_says(built: Any, page: Path) -> None:
    comparison, summary = built
    text = outline(page).text
    sentences = [summary.advice.sentence, *summary.findings, *summary.caveats, *comparison.notes]
    sentences += [row.sentence for row in (*summary.differences, *summary.times_to_accuracy)]
    sentences += [saved.text for saved in summary.saved_over_best + summary.saved_over_cold]
    assert [sentence for sentence in sentences if sentence not in text] == []
    for arm in comparison.arms:
        assert arm.name in text


def test_without_a_test_the_page_warns(builder: Callable, tmp_path: Path) -> None:
    built = builder(subsets=(50,), has_test=False, num_texts=60)
    page = write_comparison_page(*built, tmp_path / "report.html")
    text = page.read_text(encoding="utf-8")
    assert "validation scores" in text[text.index('class="box"') :][:300]


def test_when_the_baseline_wins_the_verdict_says_so(builder: Callable) -> None:
    skill = {"warm": (0.6, 0.6, 1.0), "cold": (0.6, 0.6, 1.0), "frozen": (0.6, 0.6, 1.0)}
    skill["baseline"] = (0.95, 0.95, 1.0)
    comparison, summary = builder(subsets=(50,), num_shared=0, skill=skill)
    verdict = "".join(comparison_sections(comparison, summary)[0].pieces)
    assert 0 < verdict.index("Use tf-idf:") < verdict.index(" loses to tf-idf")
    assert "pretraining did not pay here" in verdict
    assert re.search(r"highest first: tf-idf", verdict)


def test_strings_of_the_user_are_harmless(builder: Callable, tmp_path: Path) -> None:
    comparison, summary = builder(
        title=EVIL,
        class_names=(EVIL, "&amp;"),
        arms=((EVIL, "warm"), ("cold", "cold"), ('" onload="x', "baseline")),
        subsets=(50, 100),
        num_texts=60,
    )
    extra = Section(title=EVIL, pieces=[EVIL, table([EVIL, "b"], [[EVIL, EVIL]])])
    report = write_comparison_page(comparison, summary, tmp_path / "report.html")
    page = write_page(EVIL, [extra], tmp_path / "page.html")
    for found in map(outline, (report, page)):
        assert found.tags["script"] == 0
        assert EVIL in found.text
    assert "&amp;" in outline(report).text


@pytest.mark.parametrize(
    "shape",
    [
        {"subsets": (50,), "seeds": (0,), "num_epochs": 1, "has_test": False, "num_shared": 0},
        {"arms": (("tf-idf", "baseline"),)},
        {"arms": (("warm", "warm"),), "subsets": (50, 100)},
        {"class_names": tuple("abcde"), "num_epochs": 30, "subsets": (100,)},
    ],
)
def test_comparisons_of_any_shape_have_a_page(
    shape: dict[str, Any], builder: Callable, tmp_path: Path
) -> None:
    comparison, summary = builder(**shape, num_texts=60)
    found = outline(write_comparison_page(comparison, summary, tmp_path / "report.html"))
    assert found.open == []
    assert "nan" not in found.text.lower().split()


def test_a_page_shows_its_sections(tmp_path: Path) -> None:
    sections = [Section(title="One", pieces=["plain < text"]), Section(title="Two", pieces=())]
    found = outline(write_page("Title", sections, tmp_path / "deep" / "page.html"))
    assert "plain < text" in found.text
    assert found.tags["h2"] == found.tags["section"] == 2


def test_a_page_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page("new", (), path)
    assert "<h1>new</h1>" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_plain_text_is_escaped_once_and_html_never(tmp_path: Path) -> None:
    pieces = ["a<b & c", bullets(["d<e", bullets(["f"])])]
    page = write_page("t", [Section(title="&", pieces=pieces)], tmp_path / "page.html")
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "<p>a&lt;b &amp; c</p>" in text
    assert "<li>d&lt;e</li>" in text
    assert "<li><ul> <li>f</li> </ul>" in text
    assert "&lt;li" not in text
    assert "<h2>&amp;</h2>" in text


def test_a_table_refuses_rows_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="under 2 headers"):
        table(["a", "b"], [["only one"]])
