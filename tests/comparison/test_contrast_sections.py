"""A warm and a cold model side by side: their attention on one text, and where they disagree."""

from pathlib import Path

import numpy as np
import pytest

from warmstart.comparison.report import FOLDED, SHOWN, attention_section, contrast_section
from warmstart.comparison.results import AttentionExample, Contrast, Disagreement
from warmstart.comparison.verdict import find_disagreements
from warmstart.model.attention_weights import AttentionMap, Tokens
from warmstart.report.attention import draw_layers
from warmstart.report.html import write_page

PIECES = ("<s>", "▁Une", "▁mer", "veille", ",", "</s>")
TOKENS = Tokens(pieces=PIECES, words=(0, 1, 2, 2, 2, 3))


def causal_map(depth: int = 2, seed: int = 0) -> AttentionMap:
    T = len(TOKENS)
    weights = np.random.default_rng(seed).random((depth, 2, T, T)) * np.tril(np.ones((T, T)))
    weights /= weights.sum(-1, keepdims=True)
    return AttentionMap(
        part="self",
        queries=TOKENS,
        keys=TOKENS,
        weights=weights.astype(np.float32),
        is_causal=True,
    )


def contrast(disagreements: list[Disagreement], num_texts: int) -> Contrast:
    return Contrast(
        first="warm",
        second="cold",
        labels=48,
        seed=1,
        disagreements=disagreements,
        num_texts=num_texts,
    )


def text_of(shown: Contrast) -> str:
    """Return the HTML of the disagreements on one line."""
    return " ".join("".join(contrast_section(shown).pieces).split())


def test_attention_of_two_arms_on_one_text(tmp_path: Path) -> None:
    example = AttentionExample(
        row=0,
        label="good",
        labels=48,
        maps={"warm": causal_map(), "cold": causal_map(depth=3, seed=1)},
        predictions={"warm": "good", "cold": "<bad>"},
    )
    text = write_page("report", [attention_section(example)], tmp_path / "r.html").read_text(
        encoding="utf-8"
    )
    assert "warm: good (correct)" in text
    assert "cold: &lt;bad&gt; (wrong)" in text
    assert text.count(">merveille,<") == 2
    assert text.count("<svg") == 1
    assert "<script" not in text


def test_received_attention_is_averaged_over_the_queries_that_see_a_key() -> None:
    attention = causal_map()
    received = attention.received()
    last = attention.weights[-1].mean(0)
    assert np.isclose(received[-1], last[-1, -1])  # only the last token sees the last
    assert np.isclose(received[0], last[:, 0].mean())


def test_disagreements_are_sorted_by_who_is_right() -> None:
    texts = ["a", "b", "c <i>", "d"]
    rows = find_disagreements(texts, [0, 1, 2, 0], [0, 0, 0, 0], [1, 1, 1, 0], "xyz".__getitem__)
    assert [(row.text, row.label, row.first, row.second) for row in rows] == [
        ("a", "x", "x", "y"),
        ("b", "y", "x", "y"),
        ("c <i>", "z", "x", "y"),
    ]
    text = text_of(contrast(rows, 4))
    assert "warm and cold disagree on 3 of 4 texts" in text
    assert "only warm is correct on 1, only cold on 1, neither on 1" in text
    assert "c &lt;i&gt;" in text
    assert "trained on 48 labels with seed 1." in text
    assert "disagree on 0 of 4 texts" in text_of(contrast([], 4))


@pytest.mark.parametrize(
    ("num_rows", "more"), [(25, ">15 more<"), (3_000, ">2,990 more, of which the first 100<")]
)
def test_many_disagreements_stay_a_page(num_rows: int, more: str) -> None:
    rows = find_disagreements(
        ["t" * 999] * num_rows, [0] * num_rows, [0] * num_rows, [1] * num_rows, "xy".__getitem__
    )
    text = text_of(contrast(rows, num_rows))
    assert more in text
    assert text.count("<td") == 4 * min(SHOWN + FOLDED, num_rows)
    assert "t" * 401 not in text


@pytest.mark.parametrize("depths", [(1, 1), (2, 3), (6, 6), (14, 2)])
def test_every_layer_of_both_models_is_drawn(depths: tuple[int, int]) -> None:
    maps = {name: causal_map(depth) for name, depth in zip(("warm", "cold"), depths, strict=True)}
    drawn = [axes for axes in draw_layers(maps).axes if axes.images]
    layers = [f"layer {layer + 1}" for depth in depths for layer in range(depth)]
    assert [axes.get_xlabel() for axes in drawn] == layers
    assert [axes.get_title("left") for axes in drawn if axes.get_title("left")] == ["warm", "cold"]
