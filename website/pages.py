"""Pages of the site that are not in docs/, and what Markdown lacks: formulas, figures that open.

The pages come from the root, from the examples and from the table of commands.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from warmstart.cli.options import PANELS
from warmstart.commands import COMMANDS, Command
from warmstart.settings.base import Setting

ARGUMENTS = "Arguments"  # heading of settings that are written without a flag
ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(([^)]+)\)")  # words, target
FORMULA = re.compile(r"^```math\n(.*?)^```$|\$`([^`]+)`\$", re.DOTALL | re.MULTILINE)  # LaTeX
IMAGE = re.compile(r'<img [^>]*src="([^"]+)"[^>]*>')
CODE = re.compile(r"(<code[^>]*>)(.*?)(</code>)", re.DOTALL)
WORD = re.compile(r"^[^\s<,]{1,40}$|(?<![^\s>])--[a-z][a-z-]*")  # a name, or a flag in a command
LIST = re.compile(r"^[^\s<]+,[^\s<]+$")  # values of a setting
AT_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "RELEASING.md": "releasing.md",
}
EXAMPLES = {  # shown as pages
    "examples/transformer_2017.py": "labs/transformer_2017.md",
    "examples/transformer.py": "labs/transformer.md",
}


QUESTIONS = """
The labs explain [attention](attention.md#1-what-are-queries-keys-and-values),
[blocks](attention.md#4-how-is-a-block-built),
[the causal mask](transfer.md#3-why-is-there-a-square-mask),
[positions](transfer.md#4-why-are-there-positions),
[the swap of the head](transfer.md#2-what-does-a-new-head-change),
[the decoder](translation.md#5-encoder-decoder-cross-attention-who-sees-what) and
[generation](translation.md#6-how-is-a-sentence-predicted).
In [a notebook](notebooks/write.ipynb) you write them yourself.
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every command into the navigation."""
    assert config.nav is not None
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = [
                {group: [{entry.name: _path(entry)} for entry in commands]}
                for group, commands in COMMANDS.items()
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    for path, content in made_pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML; link to the pages of examples; name other files without a page."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(match: re.Match[str]) -> str:
        target, _, line = match[2].partition("#L")  # as in transformer.py#L7
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path in EXAMPLES:
            page = posixpath.relpath(EXAMPLES[path], folder or ".")
            html = page.replace(".md", f".html#line-0-{line}")  # mkdocs does not know the lines
            return f'<a href="{html}">{match[1]}</a>' if line else f"[{match[1]}]({page})"
        is_outside = match[2].startswith("../") and not path.startswith("docs/")
        name = match[1] if path in match[1] else f"{match[1]} (`{path}`)"
        return name if is_outside else match[0]

    return FORMULA.sub(_formula, LINK.sub(shown, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let a figure open large, keep a flag or a name on one line, and break lists at commas."""
    linked = IMAGE.sub(r'<a class="figure" href="\1">\g<0></a>', html)
    return CODE.sub(lambda code: code[1] + _breaks(code[2]) + code[3], linked)


def _breaks(code: str) -> str:
    return code.replace(",", ",<wbr>") if LIST.match(code) else WORD.sub(_whole, code)


def _whole(match: re.Match[str]) -> str:
    return f'<span class="word">{match[0]}</span>'


def _formula(match: re.Match[str]) -> str:
    block, inline = match.groups()
    return convert(block.strip(), display="block") if block else convert(inline)


def made_pages() -> dict[str, str]:
    """Return the text of every page that is made here, by path."""
    entries = [entry for commands in COMMANDS.values() for entry in commands]
    return {
        **{path: _from_root((ROOT / name).read_text()) for name, path in AT_THE_ROOT.items()},
        **{page: _code(name) for name, page in EXAMPLES.items()},
        **{_path(entry): "\n".join(_reference(entry)) for entry in entries},
    }


def _from_root(text: str) -> str:
    """Return a page of the root with links as they are in the site; other files are no links."""

    def moved(match: re.Match[str]) -> str:
        words, target = match.groups()
        path, mark, part = target.partition("#")
        if target.startswith(("https://", "#")):
            return match[0]
        if path.startswith("docs/"):
            return f"[{words}]({path.removeprefix('docs/')}{mark}{part})"
        return f"[{words}]({AT_THE_ROOT[path]})" if path in AT_THE_ROOT else f"`{path}`"

    return LINK.sub(moved, text)


def _code(name: str) -> str:
    return f"# {name}\n{QUESTIONS}\n```python\n{(ROOT / name).read_text()}```\n"


def _path(entry: Command) -> str:
    return f"reference/{entry.name.replace(' ', '-')}.md"


def _reference(entry: Command) -> Iterator[str]:
    """Yield the page of one command: what it does, an example, its settings by panel."""
    yield f"# warmstart {entry.name}\n\n{entry.help}\n"
    yield f"```sh\nwarmstart {entry.name} {entry.example}\n```\n"
    yield "A setting's name is its flag, its key in a settings file and its keyword in Python.\n"
    settings = [setting for setting in entry.settings.declared() if setting.has_flag]
    for panel in (ARGUMENTS, *PANELS):
        rows = [_row(setting) for setting in settings if _panel(setting) == panel]
        if rows:
            head = "| setting | default | meaning |\n|---|---|---|"
            yield f"## {panel}\n\n{head}\n" + "\n".join(rows) + "\n"


def _panel(setting: Setting) -> str:
    return ARGUMENTS if setting.positional else setting.panel


def _row(setting: Setting) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (setting.short, setting.flag) if flag)
    choices = f" ({', '.join(f'`{choice}`' for choice in setting.choices)})"
    advanced = " *Advanced.*" if setting.advanced else ""
    help_text = setting.help.replace("|", "\\|")
    meaning = f"{help_text}{choices if setting.choices else ''}{advanced}"
    return f"| {flags} | {_default(setting)} | {meaning} |"


def _default(setting: Setting) -> str:
    value: Any = setting.default
    if setting.is_required:
        return "required"
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"
