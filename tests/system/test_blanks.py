"""The notebook with blanks: empty it fails with help, solved it passes, and mistakes are named."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/labs/notebooks"
NAMES = ("attention", "causal_mask", "sinusoids", "next_token_loss", "greedy", "swap_head")
# Five usual mistakes of each blank, and words of the message that names them.
WRONG = {
    "attention": [
        ("(q @ k.mT).masked_fill(~mask, -inf).softmax(-1) @ v", "not divided by √K"),
        ("(q @ k.mT / 2).masked_fill(~mask, -inf).softmax(-2) @ v", "axis -2"),
        ("(q @ k.mT / 2).masked_fill(mask, -inf).softmax(-1) @ v", "upside down"),
        ("(q @ k.mT / 2).masked_fill(~mask, 0).softmax(-1) @ v", "set to 0"),
        ("((q @ k.mT / 2).softmax(-1) * mask) @ v", "after softmax"),
        ("(q @ k.mT / 2).masked_fill(~mask, -inf).softmax(-1)", "These are the weights"),
        ("(q @ k / 2).masked_fill(~mask, -inf).softmax(-1) @ v", "k transposed"),
        ("(q @ k.mT / 2).softmax(-1) @ v", "mask is not used"),
        ("(q @ k.mT / 4).masked_fill(~mask, -inf).softmax(-1) @ v", "not by its root"),
    ],
    "causal_mask": [
        ("torch.ones(length, length).bool().triu()", "upper triangle"),
        ("torch.ones(length, length).bool().tril(-1)", "diagonal must be True"),
        ("torch.ones(length, length).tril()", "must be boolean"),
        ("torch.ones(length, length).bool()", "Nothing is masked"),
        ("torch.ones(length, length).tril().log()", "numbers to add"),
        ("~torch.ones(length, length).bool().tril()", "inverted"),
        ("torch.ones(length).bool()", "shape"),
    ],
    "sinusoids": [
        ("torch.cat([angles.sin(), angles.cos()], -1)", "two halves"),
        ("torch.stack([angles.cos(), angles.sin()], -1).flatten(1)", "exchanged"),
        ("both(positions * 10_000 ** (-torch.arange(width // 2) / width))", "lacks its 2"),
        ("both(positions * 10_000 ** (torch.arange(0, width, 2) / width))", "positive"),
        ("both((positions + 1) * 10_000 ** (-torch.arange(0, width, 2) / width))", "begin with 1"),
        ("both(angles).T", "Rows and columns"),
        ("both(positions.expand(-1, width // 2))", "same frequency"),
        ("torch.stack([angles.sin(), angles.cos()], -1)", "shape"),
    ],
    "next_token_loss": [
        ("ce(logits.flatten(0, 1), ids.flatten(), ignore_index=pad)", "no shift"),
        (
            "ce(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten(), ignore_index=pad)",
            "wrong way",
        ),
        ("ce(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())", "Padding counts"),
        ("ce(logits[:, :-1], ids[:, 1:], ignore_index=pad)", "flatten both"),
        (
            "ce(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=pad,"
            " reduction='sum')",
            "the sum over the tokens",
        ),
        (
            "ce(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=pad,"
            " reduction='none').mean()",
            "divided by all positions",
        ),
        (
            "ce(logits[:, :-1].softmax(-1).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=pad)",
            "softmax already",
        ),
    ],
    "greedy": [
        ("write(lambda ids: predict(ids)[:, -1], limit=limit)", "does not stop at `end`"),
        ("write(lambda ids: predict(ids)[:, 0], limit=limit)", "first position"),
        ("write(lambda _: predict(ids)[:, -1], limit=limit)", "prompt alone"),
        ("write(lambda ids: predict(ids)[:, -1], limit=3)", "Only one token"),
        ("write(lambda ids: predict(ids)[:, -1], limit=6)[:, 2:]", "Only the new tokens"),
        ("write(lambda ids: predict(ids)[:, -1], limit=5)", "`end` is not appended"),
        ("write(lambda ids: predict(ids)[:, -1], limit=limit + 3)", "longer than `limit`"),
        ("predict(ids).argmax(1)", "shape"),
    ],
    "swap_head": [
        ("model", "V, not num_labels"),
        ("Model(model.backbone, 2)", "use num_labels"),
        ("Model(type(model.backbone)(120, 8), num_labels)", "cold start"),
        ("Model(model.backbone.requires_grad_(False), num_labels)", "Pretrained is not frozen"),
        ("stack(model, num_labels)", "on top of the old one"),
        ("with_head(model, nn.Linear(120, num_labels))", "reads V numbers"),
        ("with_head(model, old_rows(model, num_labels))", "rows of the old one"),
        ("nn.Linear(8, num_labels)", "needs a backbone"),
    ],
}
ARGUMENTS = {
    "attention": "q, k, v, mask",
    "causal_mask": "length",
    "sinusoids": "length, width",
    "next_token_loss": "logits, ids, pad",
    "greedy": "predict, ids, end, limit",
    "swap_head": "model, num_labels",
}
BEFORE = {  # what the wrong lines above use
    "sinusoids": "positions = torch.arange(length)[:, None]\n"
    "    angles = positions * 10_000 ** (-torch.arange(0, width, 2) / width)\n"
    "    both = lambda a: torch.stack([a.sin(), a.cos()], -1).flatten(1)\n",
    "greedy": "def write(last, limit):\n"
    "        written = ids\n"
    "        while written.shape[1] < limit:\n"
    "            written = torch.cat([written, last(written).argmax(-1, keepdim=True)], 1)\n"
    "        return written\n",
}


class Model(nn.Module):
    """A backbone and a head, as in the notebook."""

    def __init__(self, backbone: Any, num_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head: nn.Module = nn.Linear(backbone.embed.embedding_dim, num_outputs)


def with_head(model: Any, head: nn.Module) -> Model:
    changed = Model(model.backbone, 1)
    changed.head = head
    return changed


def stack(model: Any, num_labels: int) -> Model:
    return with_head(model, nn.Sequential(model.head, nn.Linear(120, num_labels)))


def old_rows(model: Any, num_labels: int) -> nn.Module:
    head = nn.Linear(8, num_labels)
    head.weight.data = model.head.weight.data[:num_labels].clone()
    return head


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return load(ROOT / "website/notebooks.py")


@pytest.fixture(params=[0, 12], ids=["student 0", "student 12"])
def checks(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    module = load(FOLDER / "checks.py")
    module.STUDENT = request.param
    return module


def solved(builder: ModuleType) -> dict[str, Any]:
    """Return the solved functions, and the model around them."""
    code = [c.source for c in builder.build_notebook(True).cells if c.cell_type == "code"]
    namespace: dict[str, Any] = {"torch": torch, "nn": nn}
    for source in code:
        if source.startswith(("def ", "class ")) and "batch(" not in source:
            exec(source, namespace)
    return namespace


@pytest.mark.parametrize(("name", "is_solved"), [("write", False), ("write_solved", True)])
def test_the_notebooks_are_those_of_the_source(
    name: str, is_solved: bool, builder: ModuleType
) -> None:
    stored = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert stored.cells == builder.build_notebook(is_solved).cells, "python website/notebooks.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_passes(
    name: str, checks: ModuleType, builder: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    checks.check(solved(builder)[name])
    assert f"{name}: right. Answer of student {checks.STUDENT}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "line", "words"), [(name, *wrong) for name in NAMES for wrong in WRONG[name]]
)
def test_a_usual_mistake_is_named(name: str, line: str, words: str, checks: ModuleType) -> None:
    namespace = {"torch": torch, "nn": nn, "Model": Model, "inf": torch.inf, "stack": stack}
    namespace |= {"ce": nn.functional.cross_entropy, "with_head": with_head, "old_rows": old_rows}
    before = BEFORE.get(name, "pass\n")
    exec(f"def {name}({ARGUMENTS[name]}):\n    {before}\n    return {line}\n", namespace)
    with pytest.raises(checks.NotYet) as caught:
        checks.check(namespace[name])
    assert words in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_returned_is_told(name: str, checks: ModuleType) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def {name}({ARGUMENTS[name]}):\n    pass\n", namespace)
    with pytest.raises(checks.NotYet, match=r"nothing: is there a `return`|NoneType"):
        checks.check(namespace[name])


def test_there_are_five_mistakes_of_each_blank() -> None:
    assert set(WRONG) == set(NAMES)
    assert all(len(mistakes) >= 5 for mistakes in WRONG.values())


def test_each_of_sixty_students_has_answers_of_their_own(
    builder: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    module, functions = load(FOLDER / "checks.py"), solved(builder)
    told = {name: set() for name in NAMES}
    for student in range(1, 61):
        module.STUDENT = student
        for name in NAMES:
            module.check(functions[name])
            told[name].add(capsys.readouterr().out.rsplit(" ", 1)[1])
    assert {name: len(answers) for name, answers in told.items()} == dict.fromkeys(NAMES, 60)


def test_the_solutions_are_those_of_the_page(builder: ModuleType) -> None:
    page, functions = load(ROOT / "examples/transformer_2017.py"), solved(builder)
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    mask = page.causal_mask(5)
    assert functions["causal_mask"](5).equal(mask)
    assert_close(functions["attention"](q, k, v, mask), page.attention(q, k, v, mask))
    assert_close(functions["sinusoids"](9, 12), page.sinusoids(9, 12), rtol=0, atol=1e-5)
    ids = torch.tensor([[1, 5, 4, 2], [1, 6, 2, 0]])
    logits = torch.randn(2, 4, 9)
    losses = [part["next_token_loss"](logits, ids, 0) for part in (functions, vars(page))]
    assert_close(losses[0], losses[1])


@pytest.mark.docs
@pytest.mark.parametrize("is_solved", [False, True], ids=["blank", "solved"])
def test_every_check_of_the_notebook(is_solved: bool, builder: ModuleType, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = builder.build_notebook(is_solved)
    (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    parameters.source = "STEPS = 20"
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, allow_errors=True, resources=where).execute()
    cells = [cell for cell in notebook.cells if cell.source.startswith("check(")]
    assert len(cells) == len(NAMES)
    for cell in cells:
        (output,) = cell.outputs
        if is_solved:
            assert "right. Answer of student" in output.text
        else:
            assert output.ename == "NotYet"
            assert "is still blank" in output.evalue
    errors = [o for cell in notebook.cells for o in cell.get("outputs", ()) if "ename" in o]
    assert is_solved == (not errors)


def test_hand_outs_have_no_solution_and_lose_no_link(builder: ModuleType, tmp_path: Path) -> None:
    builder.write_handouts(tmp_path / "handouts")
    pages = {path.stem: path for path in (tmp_path / "handouts/docs/labs").glob("*.md")}
    for path in pages.values():
        text = path.read_text()
        assert not re.search("<summary>|<!-- expect|teachers.md|write_solved", text)
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert link.startswith("https://") or (path.parent / link).exists(), link
    assert "**Exercise.**" in pages["transfer"].read_text()
    assert "21,018,401" not in pages["README"].read_text()
    assert "| what to expect |" not in pages["README"].read_text()
    assert not list(tmp_path.rglob("write_solved*"))
