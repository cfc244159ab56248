"""Query-key products: their sums through softmax are the model's own attention weights."""

from typing import Any

import numpy as np
import pytest
from small_runs import TEXT, open_model

from warmstart.errors import WarmstartError
from warmstart.look.commands import LookNeuronsConfig
from warmstart.look.neurons import head_products


def settings(**given: Any) -> LookNeuronsConfig:
    return LookNeuronsConfig(run="run", text=TEXT, out="a.png", **given)


@pytest.mark.parametrize("words", [{}, {"positions": "rope"}, {"ablated": "scale"}])
@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_products_make_the_weights(kind: str, words: dict[str, Any]) -> None:
    model = open_model(kind, **words)
    attention = model.attention(TEXT)["self"]
    for query in (1, 4, len(attention.keys)):
        head = head_products(model, settings(layer=2, head=2, query=query), TEXT)
        visible = head.weights > 0
        assert visible.sum() == (query if kind == "causal" else len(attention.keys))
        exponentials = np.exp(head.scores[visible])
        np.testing.assert_allclose(
            head.weights[visible], exponentials / exponentials.sum(), rtol=1e-4
        )
        np.testing.assert_allclose(head.weights, attention.weights[1, 1, query - 1], atol=1e-6)


def test_the_last_token_asks_unless_another_is_named() -> None:
    model = open_model("causal")
    head = head_products(model, settings(), TEXT)
    assert head.query == len(head.tokens) == len(head.table()[1])
    assert len(head.draw().axes) >= 5
    assert "attends most to" in head.sentence


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"layer": 3}, "--layer 3 is too large: there are 2"),
        ({"head": 9}, "--head 9"),
        ({"query": 99}, "--query 99"),
    ],
)
def test_what_is_not_there_is_refused(given: dict[str, int], fault: str) -> None:
    with pytest.raises(WarmstartError, match=fault):
        head_products(open_model("causal"), settings(**given), TEXT)
