"""The labs as notebooks: pairs of a script and a notebook without outputs, run on tiny settings."""

from pathlib import Path
from typing import Any

import pytest

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parents[2] / "docs/labs/notebooks"
NAMES = ("transfer", "translation")
TINY = {
    "transfer": "STEPS, SEEDS = 10, (0, 1)",
    "translation": "STEPS, SECONDS, LENGTHS = 10, 2, (64, 128)",
}
FIGURES = ("<svg", "<img", "<iframe")


@pytest.mark.parametrize("name", NAMES)
def test_script_and_notebook_are_one(name: str) -> None:
    script = jupytext.read(FOLDER / f"{name}.py")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    pairs = [[(cell.cell_type, cell.source) for cell in book.cells] for book in (script, notebook)]
    assert pairs[0] == pairs[1], f"jupytext --sync docs/labs/notebooks/{name}.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_no_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


@pytest.mark.docs
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_shows_figures_and_runs_again(name: str, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = jupytext.read(FOLDER / f"{name}.py")
    (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    parameters.source = TINY[name]
    where = {"metadata": {"path": str(tmp_path)}}
    for _ in range(2):  # again in a new kernel, which finds what the first one wrote
        NotebookClient(notebook, timeout=600, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [html(output) for output in outputs]
    assert sum(any(mark in page for mark in FIGURES) for page in pages) >= 8
    assert any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in outputs)


def html(output: Any) -> str:
    return str(output.get("data", {}).get("text/html", ""))
