"""The model on one page, examples/transformer.py, computes what the product computes."""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import EncoderOutput, LanguageModel, Translator
from warmstart.settings.model import ModelConfig

PAGE = Path(__file__).parents[2] / "examples/transformer.py"
CLOSE = {"rtol": 1e-6, "atol": 1e-6}  # the page keeps positions in single precision
IDS = torch.tensor([[1, 5, 6, 7, 9, 2], [1, 8, 3, 4, 22, 2]])
IS_TOKEN = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]).bool()
TARGET = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16]])


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_page", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["one_page"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[("relu", True, False), ("gelu", True, True), ("swiglu", False, True)])
def shape(request: pytest.FixtureRequest, some_shape: ModelConfig) -> ModelConfig:
    """Return a classic or a modern shape; the page scales embeddings for sinusoids only."""
    activation, biases, tied = request.param
    scale = some_shape.positions == "sinusoidal"
    return replace(
        some_shape, activation=activation, biases=biases, tied=tied, scale_embedding=scale
    )


def on_the_page(page: ModuleType, kind: str, ours: nn.Module, shape: ModelConfig) -> nn.Module:
    """Return the page's model of this kind with our weights."""
    known = {field.name for field in fields(page.Config)}
    config = page.Config(**{k: v for k, v in shape.to_json().items() if k in known})
    model = getattr(page, kind)(config).double().eval()
    missing, unexpected = model.load_state_dict(dict(_renamed(ours)), strict=False)
    shared = {"decoder.embed.weight"} | ({"head.weight"} if shape.tied else set())
    assert set(missing) <= shared
    assert not unexpected
    return model


def _renamed(model: nn.Module) -> Any:
    """Yield our weights; the page keeps queries, keys and values apart, as the paper does."""
    for name, tensor in model.state_dict().items():
        prefix, is_packed, kind = name.partition("project.")
        if not is_packed:
            yield name.replace("head.output.", "head."), tensor
            continue
        parts = ("key", "value") if ".cross." in name else ("query", "key", "value")
        for part, own in zip(parts, tensor.chunk(len(parts)), strict=True):
            yield f"{prefix}{part}.{kind}", own


@torch.no_grad()
def test_a_language_model_predicts_the_same(
    page: ModuleType, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(LanguageModel(shape)).eval()
    theirs = on_the_page(page, "LanguageModel", ours, shape)
    assert_close(theirs(IDS), ours(IDS), **CLOSE)


@torch.no_grad()
def test_a_masked_backbone_sees_the_same(
    page: ModuleType, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(Backbone(replace(shape, attention="bidirectional"))).eval()
    theirs = on_the_page(page, "Stack", ours, shape)
    hidden = theirs(IDS, IS_TOKEN[:, None, None])
    assert_close(hidden[IS_TOKEN], ours(IDS, Layout(is_token=IS_TOKEN))[IS_TOKEN], **CLOSE)


@torch.no_grad()
def test_a_translator_predicts_the_same(
    page: ModuleType, shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(Translator(replace(shape, decoder_depth=shape.depth))).eval()
    theirs = on_the_page(page, "Translator", ours, shape)
    assert_close(theirs(IDS, IS_TOKEN, TARGET), ours(IDS, IS_TOKEN, TARGET), **CLOSE)


@torch.no_grad()
def test_greedy_generation_is_the_same(
    page: ModuleType, tiny: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ours = randomised(Translator(replace(tiny, decoder_depth=2))).eval()
    theirs = on_the_page(page, "Translator", ours, tiny)
    encoded = ours.encode(IDS, IS_TOKEN)

    def ours_predicts(ids: Tensor) -> Tensor:
        return ours.head(ours.decode(ids, EncoderOutput(encoded.hidden, IS_TOKEN)), ours.embedding)

    start = TARGET[:, :1]
    written = page.generate(lambda ids: theirs(IDS, IS_TOKEN, ids), start, 9)
    assert_close(written, page.generate(ours_predicts, start, 9))
    assert written.shape == (2, 9)


def test_sampling_follows_the_temperature(page: ModuleType) -> None:
    logits = torch.tensor([0.0, 1.0]).expand(2000, 1, 2)
    start = torch.zeros(2000, 1, dtype=torch.long)
    for temperature in (0.5, 1.0, 2.0):
        share = page.generate(lambda ids: logits, start, 2, temperature)[:, 1].double().mean()
        assert_close(
            share.item(), torch.tensor(1 / temperature).sigmoid().item(), rtol=0, atol=0.05
        )


def test_rows_end_where_they_write_the_end(page: ModuleType) -> None:
    following = torch.tensor([4, 0, 1, 2, 3])  # token 0 ends; after it comes 4

    def predict(ids: Tensor) -> Tensor:
        return nn.functional.one_hot(following[ids], 5).float()

    written = page.generate(predict, torch.tensor([[1], [3]]), 9, end=0)
    assert written.tolist() == [[1, 0, 0, 0], [3, 2, 1, 0]]
    assert page.generate(predict, torch.tensor([[1], [3]]), 3, end=0).shape == (2, 3)


def test_the_page_is_one_page_and_imports_nothing_of_ours() -> None:
    text = PAGE.read_text()
    assert len(text.splitlines()) <= 200
    assert "warmstart" not in text
