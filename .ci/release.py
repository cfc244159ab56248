"""Keep version, changelog and citation in agreement.

python .ci/release.py bump 0.2.0    # writes the version and closes the changelog's section
python .ci/release.py check         # says what is missing before a release
python .ci/release.py version       # prints the version
python .ci/release.py notes         # prints its section of the changelog
python .ci/release.py links URL     # makes README.md link to the version at this address
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
UNRELEASED = "## [Unreleased]"


def current_version(root: Path) -> str:
    """Return the version that pyproject.toml has."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def bump(root: Path, version: str, day: date) -> None:
    """Write a new version everywhere, with the day of its release."""
    replace_line(root / "pyproject.toml", r"version = .*", f'version = "{version}"')
    replace_line(root / "CITATION.cff", r"version: .*", f"version: {version}")
    citation = root / "CITATION.cff"
    undated = re.sub(r"(?m)^date-released: .*\n", "", citation.read_text())
    citation.write_text(undated + f"date-released: {day}\n")
    heading = f"{UNRELEASED}\n\n## [{version}] - {day}"
    replace_line(root / "CHANGELOG.md", re.escape(UNRELEASED), heading)


def replace_line(file: Path, pattern: str, line: str) -> None:
    """Replace the first line that matches; there must be one."""
    text, num = re.subn(rf"(?m)^{pattern}$", lambda match: line, file.read_text(), count=1)
    assert num, f"{file} has no line {pattern}"
    file.write_text(text)


def problems(root: Path) -> Iterator[str]:
    """Yield what stands in the way of a release."""
    version = current_version(root)
    unreleased, *released = re.split(r"(?m)^## \[", (root / "CHANGELOG.md").read_text())[1:]
    if unreleased.partition("]")[2].strip():
        yield "CHANGELOG.md has entries under Unreleased: make bump VERSION=…"
    newest = released[0].split("]")[0] if released else "none"
    if newest != version:
        yield f"CHANGELOG.md ends with {newest}, pyproject.toml has {version}: make bump VERSION=…"
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text():
        yield f"CITATION.cff has another version than pyproject.toml, {version}"
    if git(root, "status", "--porcelain"):
        yield "there are changes that are not committed"
    if git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists already: versions are released once"


def notes(root: Path) -> str:
    """Return the changelog's section of the version, without its heading."""
    sections = re.split(r"(?m)^## \[", (root / "CHANGELOG.md").read_text())[1:]
    (section,) = (s for s in sections if s.startswith(f"{current_version(root)}]"))
    return section.partition("\n")[2].strip()


def absolute_links(text: str, address: str, version: str) -> str:
    """Return Markdown whose relative links lead to a version of the repository at an address."""
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{address}/raw/v{version}/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\1{address}/blob/v{version}/", text)


def git(root: Path, *arguments: str) -> str:
    """Return what git prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Do what the first word says with the checkout of the working directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("version")
    commands.add_parser("notes")
    commands.add_parser("links").add_argument("address")
    commands.add_parser("bump").add_argument("version")
    arguments, root = parser.parse_args(), Path.cwd()
    match arguments.command:
        case "check":
            sys.exit("\n".join(problems(root)) or 0)
        case "version":
            sys.stdout.write(f"{current_version(root)}\n")
        case "notes":
            sys.stdout.write(f"{notes(root)}\n")
        case "links":
            readme = root / "README.md"
            text = absolute_links(readme.read_text(), arguments.address, current_version(root))
            readme.write_text(text)
        case "bump":
            if not VERSION.fullmatch(arguments.version):
                sys.exit(f"{arguments.version!r} is not a version such as 0.2.0 or 1.0.0rc1")
            bump(root, arguments.version, date.today())


if __name__ == "__main__":
    main()
