"""The pages of the labs: their commands, and the numbers that they quote with a tolerance.

A page says beside a quoted number where it comes from and how far it may be off:

    <!-- expect "-o runs/base": 71.1 ± 1.5% of masked tokens restored -->

In quotes is the end, or another part, of the one command that prints the line; then the line, with
a tolerance after each number that may differ. Other numbers must be the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LABS = Path(__file__).parents[2] / "docs/labs"
PAGES = ("transfer", "attention", "translation", "cost")  # in the order of the course
EXPECT = re.compile(r'<!-- expect "(.+?)": (.+?) -->', re.DOTALL)
NUMBER = r"[-−+]?\d[\d,]*(?:\.\d+)?"
TOLERATED = re.compile(rf"({NUMBER}) ± ([\d.]+)")


@dataclass(frozen=True)
class Expectation:
    """A printed line, the command that prints it, and how far its numbers may be off."""

    command: str  # the whole line
    template: str

    @property
    def quoted(self) -> list[str]:
        """Return the numbers that may differ, as the page writes them."""
        return [number for number, _ in TOLERATED.findall(self.template)]

    def problem(self, printed: str) -> str:
        """Say what differs from what the command printed; an empty text if nothing does."""
        words = TOLERATED.split(_plain(self.template))[::3]
        pattern = f"({NUMBER})".join(re.escape(part) for part in words)
        match = re.search(pattern, _plain(printed))
        if match is None:
            return f"{self.command} did not print: {self.template}"
        for (number, tolerance), found in zip(
            TOLERATED.findall(self.template), match.groups(), strict=True
        ):
            if abs(_value(found) - _value(number)) > float(tolerance):
                return f"{self.command} printed {found}, the page says {number} ± {tolerance}"
        return ""


def text_of(page: str) -> str:
    return (LABS / f"{page}.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """Return the shell commands of a page in their order."""
    return [line for block in blocks(page, "sh") for line in block.splitlines()]


def expectations(page: str) -> Iterator[Expectation]:
    """Yield what a page expects of its commands; each must name exactly one of them."""
    for part, template in EXPECT.findall(text_of(page)):
        lines = {line for line in commands(page) if line.endswith(part)}
        lines = lines or {line for line in commands(page) if part in line}
        if len(lines) != 1:
            raise ValueError(f'{page}: "{part}" is in {len(lines)} commands, not in one')
        yield Expectation(lines.pop(), template)


def visible_text(page: str) -> str:
    return re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)


def _plain(text: str) -> str:
    """Return a text with single spaces and without the rules of its tables."""
    return re.sub(r"[\s│┃|]+", " ", text).replace("−", "-").strip()


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))
