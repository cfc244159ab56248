"""The 80 lines of 2017, examples/transformer_2017.py, compute what the product computes."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.settings.model import ModelConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
CLOSE = {"rtol": 1e-6, "atol": 1e-6}  # the page keeps positions in single precision
IDS = torch.tensor([[1, 5, 6, 7, 9, 2], [1, 8, 3, 4, 0, 0]])
IS_TOKEN = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]).bool()
END, PAD = 2, 0


@pytest.fixture(scope="module")
def pages() -> Iterator[tuple[ModuleType, ModuleType]]:
    """Return the page of 2017, and the one with the choices that came later."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(EXAMPLES)
        yield importlib.import_module("transformer_2017"), importlib.import_module("transformer")


@pytest.fixture
def shape(tiny: ModelConfig) -> ModelConfig:
    """Return a small shape with the choices of 2017."""
    return replace(
        tiny,
        norm="layer",
        norm_position="post",
        positions="sinusoidal",
        activation="relu",
        biases=True,
        tied=False,
        scale_embedding=True,
    )


def on_the_page(page: ModuleType, ours: nn.Module, shape: ModelConfig, outputs: int) -> nn.Module:
    """Return the page's model with our weights."""
    sizes = shape.vocab_size, shape.width, shape.heads, shape.ffn_width, shape.depth
    model = page.Model(page.Backbone(*sizes), outputs).double().eval()
    model.load_state_dict(dict(_renamed(ours)))
    return model


def _renamed(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield our weights by the names of the page, which keeps queries, keys and values apart."""
    for name, tensor in model.state_dict().items():
        name = name.replace("head.output.", "head.")
        name = name.replace(".ffn.", ".").replace(".attend.", ".")
        prefix, is_packed, kind = name.partition("project.")
        if not is_packed:
            yield name, tensor
            continue
        for part, own in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
            yield f"{prefix}{part}.{kind}", own


@torch.no_grad()
def test_a_language_model_predicts_the_same(
    pages: Any, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(LanguageModel(shape)).eval()
    theirs = on_the_page(pages[0], ours, shape, shape.vocab_size)
    assert_close(theirs(IDS), ours(IDS), **CLOSE)


@torch.no_grad()
def test_an_encoder_sees_the_same(
    pages: Any, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(Backbone(replace(shape, attention="bidirectional"))).eval()
    sizes = shape.vocab_size, shape.width, shape.heads, shape.ffn_width, shape.depth
    theirs = pages[0].Backbone(*sizes).double().eval()
    theirs.load_state_dict(dict(_renamed(ours)))
    hidden = theirs(IDS, IS_TOKEN[:, None, None])
    assert_close(hidden[IS_TOKEN], ours(IDS, Layout(is_token=IS_TOKEN))[IS_TOKEN], **CLOSE)


@torch.no_grad()
def test_a_classifier_labels_the_same(
    pages: Any, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(Classifier(shape, 3, "last")).eval()
    theirs = on_the_page(pages[0], ours, shape, 3)
    logits = pages[0].classify(theirs, IDS, IS_TOKEN.sum(1))
    assert_close(logits, ours(IDS, Layout(is_token=IS_TOKEN)), **CLOSE)


def test_a_new_head_keeps_the_backbone(pages: Any) -> None:
    page = pages[0]
    model = page.Model(page.Backbone(23, 16, 2, 24, 2), 23)
    classifier = page.swap_head(model, 3)
    assert classifier.backbone is model.backbone
    assert classifier.head.weight.shape == (3, 16)
    assert all(parameter.requires_grad for parameter in classifier.parameters())


def test_both_pages_have_the_same_parts(pages: Any) -> None:
    first, second = pages
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    mask = first.causal_mask(5)
    assert mask.equal(second.causal_mask(5))
    assert_close(first.attention(q, k, v, mask), second.attention(q, k, v, mask))
    assert_close(first.sinusoids(9, 12), second.sinusoids(9, 12))


def test_the_loss_is_that_of_the_following_tokens(pages: Any) -> None:
    logits = torch.randn(2, 6, 23)
    chances = logits.log_softmax(-1)
    told = [chances[b, t, IDS[b, t + 1]] for b in range(2) for t in range(5) if IDS[b, t + 1]]
    assert len(told) == 8
    assert_close(pages[0].next_token_loss(logits, IDS, PAD), -sum(told) / 8)


def test_writing_stops_at_the_end(pages: Any) -> None:
    def count_down(ids: Tensor) -> Tensor:
        """Predict the token before the last one: 5, 4, 3, 2."""
        return nn.functional.one_hot(ids - 1, 9).float()

    start = torch.tensor([[1, 5]])
    assert pages[0].greedy(count_down, start, END, 20).tolist() == [[1, 5, 4, 3, 2]]
    assert pages[0].greedy(count_down, start, END, 4).tolist() == [[1, 5, 4, 3]]


def test_the_page_has_80_lines_and_imports_nothing_of_ours() -> None:
    text = (EXAMPLES / "transformer_2017.py").read_text()
    assert len(text.splitlines()) <= 80
    assert "warmstart" not in text
