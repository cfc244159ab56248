"""Version, changelog and citation agree before a release, and one command changes them together."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from test_documents import ROOT

SCRIPT = ROOT / ".ci/release.py"
FILES = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", "README.md")


def git(*arguments: str, folder: Path) -> None:
    named = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


def release(folder: Path, *words: str) -> str:
    """Return what the script complains about."""
    command = [sys.executable, str(SCRIPT), *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert bool(ran.stderr) == bool(ran.returncode)
    return ran.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout whose next version is 9.8.7, committed."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    git("init", folder=tmp_path)
    assert not release(tmp_path, "bump", "9.8.7")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    git("add", ".", folder=folder)
    git("commit", "--message", "Version", folder=folder)


def test_what_was_bumped_and_committed_can_be_released(checkout: Path) -> None:
    assert not release(checkout, "check")
    assert yaml.safe_load((checkout / "CITATION.cff").read_text())["version"] == "9.8.7"
    assert "## [Unreleased]\n\n## [9.8.7] - 2" in (checkout / "CHANGELOG.md").read_text()


def test_a_second_bump_leaves_one_date(checkout: Path) -> None:
    assert not release(checkout, "bump", "9.8.8")
    assert (checkout / "CITATION.cff").read_text().count("date-released:") == 1


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("CHANGELOG.md", "[9.8.7]", "[9.8.6]", "ends with 9.8.6, pyproject.toml has 9.8.7"),
        ("CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n\n- New.\n", "under Unreleased"),
        ("CITATION.cff", "version: 9.8.7", "version: 9.8.6", "CITATION.cff has another version"),
    ],
)
def test_files_that_disagree_are_named(
    checkout: Path, file: str, old: str, new: str, complaint: str
) -> None:
    path = checkout / file
    path.write_text(path.read_text().replace(old, new))
    commit(checkout)
    assert complaint in release(checkout, "check")


def test_uncommitted_changes_and_old_tags_are_refused(checkout: Path) -> None:
    git("tag", "v9.8.7", folder=checkout)
    (checkout / "new.txt").touch()
    said = release(checkout, "check")
    assert "not committed" in said
    assert "v9.8.7 exists" in said


def test_a_version_has_three_numbers(checkout: Path) -> None:
    assert "'v2' is not a version" in release(checkout, "bump", "v2")


def test_links_of_the_readme_lead_to_the_version_that_is_released(checkout: Path) -> None:
    address = "https://example.com/owner/name"
    before = (checkout / "README.md").read_text()
    assert not release(checkout, "links", address)
    after = (checkout / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", after)
    assert all(target.startswith(("https://", "#")) for target in targets)
    assert f"]({address}/raw/v9.8.7/docs/figures/imdb-labels.png)" in after
    assert f"[MIT]({address}/blob/v9.8.7/LICENSE)" in after
    assert re.sub(rf"{address}/(raw|blob)/v9.8.7/", "", after) == before


def test_the_notes_of_a_release_are_its_section_of_the_changelog(checkout: Path) -> None:
    changelog = checkout / "CHANGELOG.md"
    heading = "## [Unreleased]\n"
    changelog.write_text(changelog.read_text().replace(heading, f"{heading}\n- New.\n"))
    assert not release(checkout, "bump", "9.8.8")
    command = [sys.executable, str(SCRIPT), "notes"]
    assert subprocess.check_output(command, cwd=checkout, text=True) == "- New.\n"


def test_the_release_workflow_publishes_what_it_has_checked_and_built() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert list(workflow[True]) == ["workflow_dispatch"]  # a person starts it; YAML reads `on` so
    jobs = workflow["jobs"]
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    order = ["release.py check", "release.py notes", "make build", "twine check"]
    places = [next(i for i, step in enumerate(steps) if word in step) for word in order]
    assert places == sorted(places)
    assert workflow["permissions"] == {"contents": "read"}
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}


def test_the_version_of_this_checkout_can_be_cited() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f'\nversion = "{citation["version"]}"\n' in (ROOT / "pyproject.toml").read_text()
    assert f"\n## [{citation['version']}]" in (ROOT / "CHANGELOG.md").read_text()
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def test_the_licence_of_every_dependency_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=]", line)[0].lower() for line in project["dependencies"]}
    pinned = dict(re.findall(r"(?m)^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text()))
    table = (ROOT / "docs/licences.md").read_text()
    rows = dict(re.findall(r"(?m)^\| (\S+) \| (\S+) \|", table))
    assert names <= {name.lower() for name in rows}
    for name, version in rows.items() - {("package", "version")}:
        assert version.split("+")[0] == pinned[name], f"{name}: make licences"
