"""Build the notebook with blanks, the same one solved, and hand-outs without solutions.

`python website/notebooks.py` writes both notebooks from docs/labs/notebooks/write.source.py, where
solutions stand between `# SOLUTION` and `# END`. `python website/notebooks.py FOLDER` writes the
labs without their solutions to a folder.
"""

import re
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat

LABS = Path(__file__).parents[1] / "docs/labs"
SOURCE = LABS / "notebooks/write.source.py"
SOLUTION = re.compile(r"^( *)# SOLUTION\n(.*?)^ *# END\n", re.MULTILINE | re.DOTALL)
DETAILS = re.compile(r"<details markdown=\"1\">.*?</details>\n\n?", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
BLANK = "raise NotImplementedError  # your lines instead of this one\n"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def build_notebook(solved: bool) -> Any:
    """Return the notebook, with the solutions or with blanks."""
    lines = r"\2" if solved else rf"\1{BLANK}"
    notebook = jupytext.reads(SOLUTION.sub(lines, SOURCE.read_text()), fmt="py:percent")
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
    """Return a page of the labs without its solutions and expectations."""
    text = (LABS / f"{page}.md").read_text()
    return COMMENT.sub("", DETAILS.sub("", text))


def main() -> None:
    """Write the notebooks or, given a folder, the hand-outs."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for path in LABS.glob("*.md"):
            (folder / path.name).write_text(build_handout(path.stem))
        return
    for name, solved in (("write", False), ("write_solved", True)):
        nbformat.write(build_notebook(solved), LABS / f"notebooks/{name}.ipynb")


if __name__ == "__main__":
    main()
