"""Several labels for a text: awkward files, each with its sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from warmstart.data.label_sets import label_sets_form, read_label_sets
from warmstart.errors import WarmstartError


def _write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content) + "\n")
    return path


NO_ROWS = "no rows with text and label"
AWKWARD: dict[str, tuple[Any, str]] = {
    "null.jsonl": ({"text": "a b", "label": ["x", None]}, "line 1: the label None is neither"),
    "blank.jsonl": ({"text": "a b", "label": ["x", " "]}, "line 1: one of its labels is empty"),
    "truth.jsonl": ({"text": "a b", "label": ["x", True]}, "the label True is neither text nor"),
    "nested.jsonl": ({"text": "a b", "label": [["x"]]}, "the label ['x'] is neither text nor"),
    "fraction.jsonl": ({"text": "a b", "label": [1.5]}, "the label 1.5 is neither text nor number"),
    "object.jsonl": ({"text": "a b", "label": {"x": 1}}, "label is {'x': 1}, not a string"),
    "no label.jsonl": ({"text": "a b"}, "one column, but text and label are needed"),
    "no text.jsonl": ({"text": "", "label": ["x", "y"]}, NO_ROWS),
    "no cell.tsv": ("label\ttext\n\ta text\n\tb text\n", NO_ROWS),
    "only commas.tsv": ("label\ttext\n,,\ta text\n,\tb text\n", NO_ROWS),
    "header.tsv": ("label\ttext\n", NO_ROWS),
    "empty.tsv": ("", NO_ROWS),
    "plain.txt": ("a text\n", "plain lines hold no labels; give a"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, complaint = AWKWARD[name]
    with pytest.raises(WarmstartError) as caught:
        read_label_sets(_write(tmp_path / name, content))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ['"[""a"", ""b, c""]"', "\"['a', 'b, c']\""])
def test_a_list_that_is_written_as_text_is_a_list(cell: str, tmp_path: Path) -> None:
    file = _write(tmp_path / "a.csv", f"label,text\n{cell},some text\n")
    assert list(read_label_sets(file).labels) == [("a", "b, c")]
    assert label_sets_form(file) == "its labels are lists"
