"""The documentation site: every command and setting has its place. `make check` builds it."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from warmstart import commands
from warmstart.commands import Command

pytest.importorskip("mkdocs")

from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
COMMANDS = [entry for group in commands.COMMANDS.values() for entry in group]


def website_module(name: str) -> ModuleType:
    """Import a module of the website, which is not installed."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"website/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return website_module("pages")


@pytest.fixture(scope="module")
def pages(hook: ModuleType) -> dict[str, str]:
    return hook.made_pages()


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_setting_is_in_the_reference(entry: Command, pages: dict[str, str]) -> None:
    page = pages[f"reference/{entry.name.replace(' ', '-')}.md"]
    for setting in entry.settings.declared():
        if setting.has_flag:
            assert f"`{setting.flag}`" in page
            assert setting.help.replace("|", "\\|") in page


def test_every_command_is_in_the_navigation(hook: ModuleType) -> None:
    nav = hook.on_config(load_config(str(ROOT / "mkdocs.yml"))).nav
    (groups,) = [section["Reference"] for section in nav if "Reference" in section]
    listed = [page for group in groups for pages in group.values() for page in pages]
    assert [name for page in listed for name in page] == [entry.name for entry in COMMANDS]


def test_links_of_root_pages_are_those_of_the_site(pages: dict[str, str]) -> None:
    assert "](docs/" not in pages["index.md"]
    assert "](contributing.md)" in pages["index.md"]


def test_examples_are_pages_of_the_site(pages: dict[str, str]) -> None:
    assert "class LanguageModel" in pages["labs/transformer.md"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs/labs").glob("*.md")), ids=lambda p: p.stem)
def test_a_link_to_a_line_leads_to_what_it_names(page: Path) -> None:
    links = re.findall(r"\[`(\w+)`\]\((\S+\.py)#L(\d+)\)", page.read_text("utf-8"))
    assert links or page.stem in ("README", "quiz", "cost")
    for name, path, line in links:
        text = (page.parent / path).read_text("utf-8").splitlines()[int(line) - 1]
        assert re.match(rf"(def|class) {name}\b", text), f"{name} is not in line {line}"


def test_a_link_to_a_line_stays_one_on_the_site(hook: ModuleType) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="labs/attention.md"))
    links = "[`Block`](../../examples/transformer.py#L112) [all](../../examples/transformer.py)"
    shown = hook.on_page_markdown(links, page, None, None)
    assert shown == '<a href="transformer.html#line-0-112">`Block`</a> [all](transformer.md)'


@pytest.mark.parametrize(
    ("markdown", "mathml"),
    [
        (
            "a\n\n```math\n\\frac{a}{b}\n```\n",
            '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"',
        ),
        ("the scale $`\\sqrt{d_k}`$ here", "<msqrt>"),
    ],
)
def test_formulas_become_mathml(hook: ModuleType, markdown: str, mathml: str) -> None:
    shown = hook.FORMULA.sub(hook._formula, markdown)
    assert mathml in shown
    assert "`" not in shown


def test_shell_variables_are_no_formulas(hook: ModuleType) -> None:
    text = "```sh\necho $HOME `date` $PATH\n```\n"
    assert hook.FORMULA.sub(hook._formula, text) == text


def test_figures_open_and_flags_stay_whole(hook: ModuleType) -> None:
    html = '<img alt="a --b" src="f.png" /><code>compare --learning-rate 1</code>'
    html += "<code>modern-small</code><code>mask,scale</code>"
    shown = hook.on_page_content(html, None, None, None)
    assert '<a class="figure" href="f.png"><img alt="a --b" src="f.png" /></a>' in shown
    assert '<code>compare <span class="word">--learning-rate</span> 1</code>' in shown
    assert '<code><span class="word">modern-small</span></code>' in shown
    assert "<code>mask,<wbr>scale</code>" in shown


def test_slides_are_one_file(tmp_path: Path) -> None:
    website_module("slides").main(tmp_path / "build" / "slides.html")
    page = (tmp_path / "build" / "slides.html").read_text("utf-8")
    text = (ROOT / "website/slides.md").read_text("utf-8")
    assert page.count("<section>") == text.count("\n---\n")
    assert page.count("data:image/png;base64,") == text.count("](../docs/figures/")
    assert "<msqrt>" in page
    assert not re.search(r'(src|href)="(?!data:)', page)
