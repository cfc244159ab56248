"""Two models on the same text, as sections of a report."""

import json

import numpy as np
from looking import TEXT, make_run, make_tokenizer

from warmstart.inference.attention_maps import look
from warmstart.report.attention_section import (
    attention_section,
    disagreements_section,
    find_disagreements,
    map_from_json,
    map_to_json,
    received,
)
from warmstart.report.page import write_page


def test_a_map_survives_json() -> None:
    found = look(*make_run("classifier", make_tokenizer()), TEXT)["self"]
    back = map_from_json(json.loads(json.dumps(map_to_json(found))))
    assert back.queries == found.queries
    assert back.part == "self"
    np.testing.assert_allclose(back.weights, found.weights, atol=4e-3)


def test_attention_of_two_arms_on_one_text(tmp_path) -> None:  # type: ignore[no-untyped-def]
    tokenizer = make_tokenizer()
    maps = {
        "warm": look(*make_run("classifier", tokenizer), TEXT)["self"],
        "cold": look(*make_run("classifier", tokenizer, depth=3), TEXT)["self"],
    }
    section = attention_section(maps, {"warm": "good", "cold": "<bad>"}, "good")
    text = write_page("report", [section], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "warm: good" in text
    assert "cold: &lt;bad&gt;" in text
    assert text.count(">merveille,<") == 2
    assert "<script" not in text


def test_received_attention_is_over_those_who_may_look() -> None:
    found = look(*make_run("causal", make_tokenizer()), TEXT)["self"]
    shares = received(found)
    last = found.weights[-1].mean(0)
    assert np.isclose(shares[-1], last[-1, -1])  # only the last token sees the last
    assert np.isclose(shares[0], last[:, 0].mean())


def test_disagreements_are_sorted_by_who_is_right() -> None:
    texts = ["a", "b", "c <i>", "d"]
    found = find_disagreements(texts, [0, 1, 2, 0], [0, 0, 0, 0], [1, 1, 1, 0], ("x", "y", "z"))
    assert [(d.text, d.truth, d.first, d.second) for d in found] == [
        ("a", "x", "x", "y"),
        ("b", "y", "x", "y"),
        ("c <i>", "z", "x", "y"),
    ]
    text = "".join(disagreements_section(found, "warm", "cold", 4).pieces)
    assert "warm and cold disagree on 3 of 4 texts" in text
    assert "warm alone is right on 1, cold alone on 1, neither on 1" in text
    assert "c &lt;i&gt;" in text
    many = find_disagreements(["t" * 999] * 25, [0] * 25, [0] * 25, [1] * 25, ("x", "y"))
    assert "15 more" in "".join(disagreements_section(many, "warm", "cold", 30).pieces)
    none = disagreements_section([], "warm", "cold", 4)
    assert "disagree on 0 of 4 texts" in "".join(none.pieces)
