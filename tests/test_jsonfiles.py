"""The reader of JSON that anyone may have written: types as declared, or one sentence."""

import contextlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart import jsonfiles
from warmstart.errors import WarmstartError
from warmstart.jsonfiles import from_json, parse_object, read_object, show, to_json

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@dataclass(frozen=True)
class Inner:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    size: int
    kind: Literal["a", "b"]
    is_open: bool = False
    label: str | None = None
    inners: tuple[Inner, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    rest: Any = None


WHOLE = {
    "size": 3,
    "kind": "b",
    "label": None,
    "inners": [{"name": "x", "share": 1}],
    "figures": {"loss": 0.25},
    "unknown": "ignored",
}


def test_a_whole_file_becomes_its_dataclass(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("\ufeff" + json.dumps(WHOLE), encoding="utf-8")
    inner = Inner("x", 1)
    expected = Outer(3, "b", inners=(inner,), figures={"loss": 0.25})
    assert from_json(Outer, read_object(file), file) == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": "3"}, "a.json: size='3' must be a whole number"),
        ({"size": True}, "a.json: size=true must be a whole number"),
        ({"size": 3.0}, "a.json: size=3.0 must be a whole number"),
        ({"size": 1 << 64}, "a.json: size=18446744073709551616 must be at most"),
        ({"kind": "c"}, "a.json: kind='c' must be one of a, b"),
        ({"kind": ["a"]}, "a.json: kind=['a'] must be one of a, b"),
        ({"is_open": 1}, "a.json: is_open=1 must be true or false"),
        ({"label": {}}, "a.json: label={} must be text"),
        ({"inners": {}}, "a.json: inners={} must be a list"),
        ({"inners": [7]}, "a.json: inners[0]=7 must be an object"),
        ({"inners": [{}]}, "a.json has no 'inners[0].name'"),
        ({"figures": [1]}, "a.json: figures=[1] must be an object"),
        ({"figures": {"loss": None}}, "a.json: figures.loss=null must be a number"),
    ],
)
def test_a_value_of_another_type_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WarmstartError) as error:
        from_json(Outer, WHOLE | changes, "a.json")
    assert str(error.value).startswith(said)


@given(st.dictionaries(st.sampled_from(sorted(WHOLE)), VALUES))
def test_no_value_raises_anything_else(changes: dict[str, Any]) -> None:
    with contextlib.suppress(WarmstartError):
        outer = from_json(Outer, WHOLE | changes, "a.json")
        assert type(outer.size) is int
        assert outer.kind in ("a", "b")
        assert all(isinstance(inner.name, str) for inner in outer.inners)


@given(VALUES)
def test_written_json_is_strict(value: Any) -> None:
    def refuse(name: str) -> None:
        pytest.fail(f"bare {name}")

    json.loads(to_json({"value": value}), parse_constant=refuse)


def test_a_number_that_is_not_finite_is_written_as_null() -> None:
    values = {"a": math.nan, "b": [math.inf, 1.0], "c": (-math.inf,)}
    assert to_json(values) == '{"a": null, "b": [null, 1.0], "c": [null]}'


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "must hold a JSON object, not []"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON value"),
        (b'{"a": 1e999}', "1e999 is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b'{"a": ' + DEEP + b"}", "not valid JSON"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "inside each other"),
    ],
    ids=range(11),
)
def test_what_is_not_a_plain_object_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(WarmstartError) as error:
        parse_object(content, "a.json")
    assert str(error.value).startswith("a.json: ")
    assert said in str(error.value)


def test_a_file_that_would_fill_the_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jsonfiles, "MOST_VALUES", 1000)
    with pytest.raises(WarmstartError, match="more than 1,000 values"):
        parse_object(b'{"a": [' + b"0," * 1000 + b"0]}", "a.json")
    monkeypatch.setattr(jsonfiles, "LARGEST_FILE", 1000)
    (tmp_path / "a.json").write_bytes(b'{"a": "' + b"x" * 1000 + b'"}')
    with pytest.raises(WarmstartError, match="more than 1,000 bytes"):
        read_object(tmp_path / "a.json")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="does not exist"):
        read_object(tmp_path / "absent.json")
    with pytest.raises(WarmstartError, match="is not a file"):
        read_object(tmp_path)


def test_any_value_can_be_shown() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert len(show(deep)) < 100
    assert len(show("x" * 10_000)) < 100
    assert show(None) == "null"
