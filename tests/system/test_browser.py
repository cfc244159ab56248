"""Pages in a real browser: they work, they stay silent, and nothing leaves them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import QUICK, World, succeed
from warmstart.look.attention import attention_html
from warmstart.model.attention_weights import AttentionMap, Part, Tokens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
]

Shown = Callable[[Path], "Visit"]


@dataclass
class Visit:
    """An open page, what it asked for, and what it complained of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Fail if anything left the page or went wrong on it."""
        assert self.requests == []
        assert self.complaints == []


@pytest.fixture
def shown(browser: Any) -> Iterator[Shown]:
    """Return a function that opens a file and watches it."""
    visits: list[Visit] = []

    def show(path: Path) -> Visit:
        visit = Visit(browser.new_page(viewport={"width": 1300, "height": 900}))
        visits.append(visit)

        def watch(route: Any) -> None:
            address = route.request.url
            if address == path.as_uri():
                route.continue_()
            else:
                visit.requests.append(address)
                route.abort()

        visit.page.route("**/*", watch)
        visit.page.on("console", lambda message: visit.complaints.append(message.text))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.set_default_timeout(10_000)
        visit.page.goto(path.as_uri())
        return visit

    yield show
    for visit in visits:
        visit.page.close()


def tokens(num: int, letter: str = "w") -> Tokens:
    """Return words of two pieces each."""
    pieces = tuple(f"▁{letter}{i}" if i % 2 == 0 else f"x{i}" for i in range(num))
    return Tokens(pieces=pieces, words=tuple(i // 2 for i in range(num)))


def random_map(
    layers: int, heads: int, rows: int, columns: int, part: Part = "self"
) -> AttentionMap:
    weights = np.random.default_rng(0).dirichlet(np.full(columns, 0.1), (layers, heads, rows))
    queries, keys = tokens(rows), tokens(columns, "s" if part == "cross" else "w")
    return AttentionMap(part=part, queries=queries, keys=keys, weights=weights.astype(np.float32))


def write(path: Path, *maps: AttentionMap) -> Path:
    path.write_text(attention_html("Attention", ["a toy"], maps), encoding="utf-8")
    return path


def read(page: Any) -> list[tuple[str, float]]:
    """Return the keys and weights the page shows for a query."""
    text = page.inner_text("#read").split(" attends to ")[1]
    return [(name, float(w) / 100) for name, w in re.findall(r"(\S+) ([\d.]+)%", text)]


def chosen(page: Any) -> tuple[int, int]:
    cell = page.locator('#all [aria-selected="true"]')
    assert cell.count() == 1
    return int(cell.get_attribute("data-layer")), int(cell.get_attribute("data-head"))


def picture(page: Any) -> str:
    return page.evaluate("document.querySelector('#matrix canvas').toDataURL()")


def test_every_token_and_every_head_is_there(shown: Shown, tmp_path: Path) -> None:
    found = random_map(12, 12, 200, 200)
    visit = shown(write(tmp_path / "big.html", found))
    page = visit.page
    labels = [piece.removeprefix("▁") for piece in found.keys.pieces]
    assert page.locator("#text .tok").all_inner_texts() == labels
    cells = page.locator("#all button")
    places = cells.evaluate_all("all => all.map(c => [+c.dataset.layer, +c.dataset.head])")
    assert places == [[layer, head] for layer in range(12) for head in range(12)]
    sizes = page.locator("#all canvas").evaluate_all("all => all.map(c => [c.width, c.height])")
    assert sizes == [[200, 200]] * 144
    assert page.locator("#spread circle").count() == 144
    entropy, distance = found.entropy(), found.distance()
    assert distance is not None
    label = cells.nth(13).get_attribute("aria-label")
    assert label == (
        f"layer 2, head 2: entropy {entropy[1, 1]:.2f} bits, distance {distance[1, 1]:.1f}"
    )
    visit.check()


def test_heads_switch_by_mouse_keys_and_menu(shown: Shown, tmp_path: Path) -> None:
    visit = shown(write(tmp_path / "small.html", random_map(3, 2, 6, 6)))
    page = visit.page
    assert chosen(page) == (0, 0)
    before = picture(page)
    page.keyboard.press("ArrowRight")
    assert chosen(page) == (0, 1)
    assert picture(page) != before
    page.keyboard.press("ArrowDown")
    assert chosen(page) == (1, 1)
    page.click('#all [data-layer="2"][data-head="0"]')
    assert chosen(page) == (2, 0)
    assert page.inner_text("#name") == "layer 3, head 1"
    page.select_option("#layer", "0")
    page.select_option("#head", "0")
    assert chosen(page) == (0, 0)
    assert picture(page) == before
    page.click('#spread circle[data-layer="1"][data-head="0"]')
    assert chosen(page) == (1, 0)
    visit.check()


@pytest.mark.parametrize("view", ["text", "lines"])
def test_pointing_at_a_token_shows_its_attention(shown: Shown, tmp_path: Path, view: str) -> None:
    found = random_map(2, 2, 8, 8)
    visit = shown(write(tmp_path / "small.html", found))
    page = visit.page
    page.click(f"[data-view={view}]")
    for layer, head, token in ((0, 0, 5), (1, 1, 2)):
        page.click(f'#all [data-layer="{layer}"][data-head="{head}"]')
        target = ".tok" if view == "text" else 'text[data-side="q"]'
        page.hover(f'#{view} {target}[data-i="{token}"]')
        row = found.weights[layer, head, token]
        best = [int(place) for place in np.argsort(-row)[:3]]
        names = [found.keys.pieces[place].removeprefix("▁") for place in best]
        said = read(page)
        assert [name for name, _ in said[:3]] == names
        np.testing.assert_allclose([w for _, w in said[:3]], row[best], atol=0.006)
        assert page.locator(f"#{view} .here").count() == 1
    assert page.locator("#strokes path").count() > 0 or view == "text"
    page.mouse.move(5, 5)
    assert page.locator(f"#{view} .here").count() == 0
    visit.check()


def test_shades_follow_the_weights(shown: Shown, tmp_path: Path) -> None:
    found = random_map(1, 1, 6, 6)
    visit = shown(write(tmp_path / "small.html", found))
    visit.page.click("[data-view=text]")
    visit.page.hover('#text .tok[data-i="3"]')
    script = "all => all.map(t => +(t.style.background.match(/[\\d.]+(?=\\)$)/) || [0])[0])"
    shades = visit.page.locator("#text .tok").evaluate_all(script)
    expected = np.sqrt(found.weights[0, 0, 3])
    np.testing.assert_allclose(shades, np.where(expected > 0.02, expected, 0), atol=0.004)
    visit.check()


def test_words_join_and_come_apart(shown: Shown, tmp_path: Path) -> None:
    found = random_map(2, 2, 8, 8)
    visit = shown(write(tmp_path / "small.html", found))
    page = visit.page
    page.click("[data-view=text]")
    page.check("#words")
    assert page.locator("#text .tok").all_inner_texts() == list(found.by_word().keys.pieces)
    page.hover('#text .tok[data-i="1"]')
    row = found.by_word().weights[0, 0, 1]
    assert read(page)[0][1] == pytest.approx(float(row.max()), abs=0.006)
    page.keyboard.press("w")
    assert page.locator("#text .tok").count() == 8
    visit.check()


def test_tokens_can_be_reached_and_kept_by_keys(shown: Shown, tmp_path: Path) -> None:
    visit = shown(write(tmp_path / "small.html", random_map(2, 2, 6, 6)))
    page = visit.page
    page.click("[data-view=text]")
    page.focus('#text .tok[data-i="0"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#text .here").get_attribute("data-i") == "2"
    page.keyboard.press("Enter")
    assert page.locator("#text .pinned").get_attribute("data-i") == "2"
    page.keyboard.press("ArrowDown")
    assert chosen(page) == (1, 0)
    page.keyboard.press("Escape")
    assert page.locator("#text .pinned").count() == 0
    visit.check()


def test_a_translator_shows_three_parts(shown: Shown, tmp_path: Path) -> None:
    maps = [
        random_map(2, 2, 6, 6, "encoder"),
        random_map(3, 2, 4, 4, "decoder"),
        random_map(3, 2, 4, 6, "cross"),
    ]
    visit = shown(write(tmp_path / "pair.html", *maps))
    page = visit.page
    assert page.locator("#parts button").all_inner_texts() == ["encoder", "decoder", "cross"]
    page.click("[data-view=text]")
    assert page.locator('#text [data-side="q"]').count() == 4
    assert page.locator('#text [data-side="k"]').count() == 6
    page.hover('#text [data-side="k"][data-i="1"]')
    assert "receives attention from" in page.inner_text("#read")
    assert not page.is_visible("#spread")
    page.click("#parts button:first-child")
    assert page.locator("#all button").count() == 4
    assert page.locator("#text .tok").count() == 6
    visit.check()


def test_dark_and_paper(shown: Shown, tmp_path: Path) -> None:
    visit = shown(write(tmp_path / "small.html", random_map(2, 2, 6, 6)))
    page = visit.page
    light = picture(page)
    page.keyboard.press("d")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert picture(page) != light
    page.pdf(path=tmp_path / "small.pdf")
    assert (tmp_path / "small.pdf").read_bytes()[:4] == b"%PDF"
    visit.check()


def test_the_page_does_not_move_under_the_pointer(shown: Shown, tmp_path: Path) -> None:
    visit = shown(write(tmp_path / "big.html", random_map(1, 1, 120, 120)))
    place = "document.querySelector('#text .tok[data-i=\"60\"]').getBoundingClientRect().top"
    before = visit.page.evaluate(place)
    visit.page.hover('#text .tok[data-i="60"]')
    assert visit.page.evaluate(place) == before
    visit.check()


def test_a_report_asks_for_nothing(shown: Shown, base: Path, world: World, tmp_path: Path) -> None:
    command = (
        "compare --from {base} --train {train} --valid {valid} --labels 8 --trials 1 --seeds 0 "
        f"-o {{out}} {QUICK}"
    )
    out = tmp_path / "comparison"
    succeed(command, base=base, train=world.train, valid=world.valid, out=out)
    visit = shown(out / "report.html")
    assert visit.page.locator("figure svg").count() > 0
    visit.check()
    for title in ("Attention on one text", "disagree"):
        assert visit.page.locator("nav a", has_text=title).count() == 1
        assert visit.page.get_by_role("heading", name=title).is_visible()
