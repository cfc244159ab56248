"""The page in a real browser: every task works, nothing is complained of, nothing leaves."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, succeed
from http_server import Server, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture
def complaints() -> list[str]:
    """Return what a page complains of, and what it asks of other servers."""
    return []


@pytest.fixture(scope="module")
def paired(masked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a classifier of pairs."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = ["a dog\tthe dog\tsame", "a cat\tthe dog\tother"] * 8
    table = folder / "pairs.tsv"
    table.write_text("\n".join(["text\ttext2\tlabel", *lines]) + "\n")
    finetune = f"finetune --from {masked} --train {table} --valid {table} --epochs 1 {MACHINE}"
    succeed(f"{finetune} -o {folder / 'run'}")
    return folder / "run"


@pytest.fixture
def page(browser: Any, server: Server, complaints: list[str]) -> Iterator[Any]:
    opened = open_page(browser, server, complaints)
    yield opened
    opened.close()
    assert complaints == []


def open_page(browser: Any, server: Server, complaints: list[str]) -> Any:
    page = browser.new_page(viewport={"width": 1300, "height": 900})

    def watch(route: Any) -> None:
        if not route.request.url.startswith((server.url, "data:")):
            complaints.append(route.request.url)
        route.continue_()

    page.route("**/*", watch)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(15_000)
    page.goto(server.url)
    return page


def ask(page: Any, task: str, text: str) -> None:
    page.click(f"#tab-{task}")
    page.fill("#text", text)
    page.click("#run")
    page.wait_for_selector("#stop", state="hidden")


def names(page: Any) -> list[str]:
    found: list[str] = page.locator("#results h2").all_inner_texts()
    return found


def test_a_label_and_what_each_word_changes(page: Any, server: Server) -> None:
    text = "A fine book, alas."
    ask(page, "classify", text)
    assert names(page) == ["sentiment"]
    texts = [text, "fine book, alas."]
    whole, without = server.post("/classify", {"texts": texts}).json["predictions"]
    best = page.locator(".bar.best").inner_text().split()
    assert best[0] == whole["label"]
    assert best[1] == f"{100 * whole['probability']:.1f}%"
    words = page.locator(".tokens button")
    assert words.all_inner_texts() == text.split()
    words.nth(0).focus()
    assert "Without “A”: " in page.inner_text(".without")
    for name, share in without["probabilities"].items():
        shown = page.locator(".without .bar", has_text=name).inner_text().split()
        assert shown == [name, f"{100 * share:.1f}%"]
    page.keyboard.press("ArrowRight")
    assert "Without “fine”" in page.inner_text(".without")


def test_a_text_of_more_words_than_the_server_takes_still_has_its_label(
    browser: Any, warm: Path, complaints: list[str]
) -> None:
    with serving(f"{warm} --max-texts 3") as server:
        page = open_page(browser, server, complaints)
        ask(page, "classify", "A fine book, alas.")
        assert page.locator(".bar.best").count() == 1
        assert "4 texts are too many" in page.inner_text(".wrong")
        page.close()
    assert all("413" in complaint for complaint in complaints)


def test_a_run_trained_on_pairs_is_asked_for_both_texts(
    browser: Any, paired: Path, warm: Path, complaints: list[str]
) -> None:
    with serving(f"pairs={paired} {warm}") as server:
        page = open_page(browser, server, complaints)
        page.click("#tab-classify")
        page.fill("#text2", "the cat")
        for task in ("classify", "attention"):
            ask(page, task, "a dog")
            assert names(page) == ["pairs", "warm"]
            assert page.locator(".wrong").count() == 0
        page.close()
    assert complaints == []


def test_a_mask_is_filled(page: Any, server: Server) -> None:
    ask(page, "fill-mask", "A [MASK] book.")
    expected = server.post("/fill-mask", {"texts": ["A [MASK] book."]}).json["texts"][0]
    assert page.inner_text(".written") == expected["text"]
    assert page.locator(".bar").count() == 5


def test_a_text_is_completed_and_translated(page: Any, server: Server) -> None:
    page.click("#tab-generate")
    page.fill("#temperature", "0")
    page.fill("#text", "This book")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#stop", state="hidden")
    body = {"prompt": "This book", "temperature": 0, "max_tokens": 40}
    expected = server.post("/generate", body).json["text"]
    assert page.locator(".written").text_content() == "This book" + expected
    ask(page, "translate", "1 2\n3 4")
    assert page.locator("#results h3").all_inner_texts() == ["1 2", "3 4"]


def test_attention_of_every_run_side_by_side(page: Any) -> None:
    ask(page, "attention", "A fine book")
    assert names(page) == ["base", "masked", "sentiment", "fr"]
    card = page.locator("article", has_text="a masked language model")
    card.locator(".tokens button", has_text="fine").focus()
    assert re.search(r"fine attends to \S+ [\d.]+%", card.inner_text())
    card.get_by_label("Head").select_option("0")
    page.uncheck('#runs input[value="fr"]')
    page.click("#run")
    page.wait_for_selector("#stop", state="hidden")
    assert names(page) == ["base", "masked", "sentiment"]


def test_refusals_are_shown(page: Any, complaints: list[str]) -> None:
    ask(page, "attention", "")
    assert "has no tokens to show" in page.inner_text(".wrong >> nth=0")
    assert all("400" in complaint for complaint in complaints)  # the browser notes them too
    complaints.clear()


def test_tabs_are_walked_by_keys_and_narrow_screens_do_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.focus("#tab-classify")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-fill-mask", "aria-selected") == "true"
    for task in ("classify", "fill-mask", "generate", "translate", "attention"):
        ask(page, task, "A [MASK] book")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.click("#tab-tables")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_page_opens_with_the_labels_of_the_run(page: Any) -> None:
    page.wait_for_selector("#known", state="visible")
    assert page.inner_text("#known") == "sentiment tells apart negative, positive"
    page.click("#tab-fill-mask")
    assert not page.is_visible("#known")


def test_the_documentation_is_a_page_too(page: Any) -> None:
    page.click("header a")
    page.wait_for_selector("text=POST /classify")


def test_a_token_is_asked_for(browser: Any, warm: Path, complaints: list[str]) -> None:
    with serving(f"{warm} --token secret") as server:
        page = open_page(browser, server, complaints)
        page.wait_for_selector("#token-form", state="visible")
        assert "needs a token" in page.inner_text("#problem")
        page.fill("#token", "secret")
        page.keyboard.press("Enter")
        ask(page, "classify", "A fine book")
        assert names(page) == ["warm"]
        page.close()
    assert all("401" in complaint for complaint in complaints)  # the browser notes the first try
