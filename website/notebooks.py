"""Build the notebook with blanks, the same one solved, and hand-outs without solutions.

`python website/notebooks.py` writes both notebooks from docs/labs/notebooks/write.source.py, where
solutions stand between `# SOLUTION` and `# END`, and cells for the solved one alone between
`# ANSWER` and `# END`. `python website/notebooks.py FOLDER` makes a new folder for students: the
program, and the documents without solutions.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat

ROOT = Path(__file__).parents[1]
LABS = ROOT / "docs/labs"
SOURCE = LABS / "notebooks/write.source.py"
SOLUTION = re.compile(r"^( *)# SOLUTION\n(.*?)^ *# END\n", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^# ANSWER\n(.*?)^# END\n", re.MULTILINE | re.DOTALL)
DETAILS = re.compile(r"<details markdown=\"1\">.*?</details>\n\n?", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
FOR_TEACHERS = ("teachers.md", "write_solved.ipynb", "write.source.py")
LINK = re.compile(rf"\[([^\]]+)\]\([^)]*(?:{'|'.join(map(re.escape, FOR_TEACHERS))})[^)]*\)")
LAST_CELL = re.compile(r"^(\|.+\|)[^|]+\|$", re.MULTILINE)
BLANK = "raise NotImplementedError  # your lines instead of this one\n"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def build_notebook(solved: bool) -> Any:
    """Return the notebook, with the solutions or with blanks."""
    lines = r"\2" if solved else rf"\1{BLANK}"
    source = ANSWER.sub(r"\1" if solved else "", SOURCE.read_text())
    notebook = jupytext.reads(SOLUTION.sub(lines, source), fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if cell.source == "# CHECKS":
            cell.source = (LABS / "notebooks/checks.py").read_text().rstrip()
            cell.metadata["jupyter"] = {"source_hidden": True}  # Jupyter folds it
            cell.metadata["cellView"] = "form"  # Colab, too
    notebook.metadata = {"kernelspec": KERNEL}
    notebook.nbformat_minor = 5
    return notebook


def build_handout(page: str) -> str:
    """Return a page of the labs without its solutions, and without links to those."""
    text = (LABS / f"{page}.md").read_text()
    if page == "README":  # the table of questions has an answer to each
        before, heading, questions = text.partition("## Every question\n")
        questions, glossary, after = questions.partition("## Glossary\n")
        text = before + heading + LAST_CELL.sub(r"\1", questions) + glossary + after
    return LINK.sub(r"\1", COMMENT.sub("", DETAILS.sub("", text)))


def write_handouts(folder: Path) -> None:
    """Copy all that students install and read, the labs without solutions."""
    left_out = shutil.ignore_patterns(
        *FOR_TEACHERS, "lab", "__pycache__", "node_modules", "*.egg-info"
    )
    for name in ("docs", "examples", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for path in LABS.glob("*.md"):
        (folder / "docs/labs" / path.name).write_text(build_handout(path.stem))


def main() -> None:
    """Write the notebooks or, given a folder, the hand-outs."""
    if len(sys.argv) > 1:
        write_handouts(Path(sys.argv[1]))
        return
    for name, solved in (("write", False), ("write_solved", True)):
        nbformat.write(build_notebook(solved), LABS / f"notebooks/{name}.ipynb")


if __name__ == "__main__":
    main()
