"""A packed translator says what the plain one says."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from warmstart.config.model import ModelConfig
from warmstart.decode.beam import Beam, best_of
from warmstart.decode.steps import (
    Engine,
    fast_engine,
    plain_engine,
    translate_ids,
    translator_step,
)
from warmstart.model.packed import can_pack
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Translator

SHAPE = ModelConfig(
    vocab_size=23,
    width=16,
    depth=2,
    heads=2,
    feed=24,
    max_length=32,
    dropout=0.0,
    decoder_depth=2,
)
CPU = Runtime(torch.device("cpu"))
HALF = Runtime(torch.device("cpu"), torch.bfloat16)
SOURCE = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]])
IS_TOKEN = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
TARGET = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16]])

pytestmark = pytest.mark.skipif(not can_pack(CPU), reason="no kernels for packed weights here")


def _random(shape: ModelConfig) -> Translator:
    model = Translator(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


@pytest.fixture(params=["tied", "untied", "separate", "unbiased"])
def model(request: pytest.FixtureRequest, some_shape: ModelConfig) -> Translator:
    words: dict[str, dict[str, Any]] = {
        "tied": {"tied": True},
        "untied": {"tied": False},
        "separate": {"tied": True, "shared": False, "target_vocab_size": 29},
        "unbiased": {"tied": False, "biases": False, "activation": "swiglu"},
    }
    return _random(replace(some_shape, decoder_depth=2, **words[request.param]))


def _logits(engine: Engine, rows: slice = slice(None)) -> torch.Tensor:
    """Return the logits (B, T, V) of the target, one token at a time."""
    memory, cache = engine.remember(SOURCE[rows], IS_TOKEN[rows]), engine.new_cache(2, 1)
    with engine.runtime.precision():
        found = [engine.predict(TARGET[rows, t], memory, cache) for t in range(TARGET.shape[1])]
    return torch.stack(found, 1).float()


@torch.inference_mode()
def test_packing_changes_nothing_but_rounding(model: Translator) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET)
    assert_close(_logits(plain_engine(model, CPU)), plain, rtol=0, atol=1e-5)
    assert_close(_logits(fast_engine(model, CPU)), plain, rtol=0, atol=2e-5)


@torch.inference_mode()
def test_a_single_short_source_is_read_in_its_own_way(model: Translator) -> None:
    plain = model(SOURCE[:1], None, TARGET[:1])
    engine = fast_engine(model, CPU)
    memory = engine.remember(SOURCE[:1], torch.ones(1, SOURCE.shape[1]).bool())
    cache = engine.new_cache(2, 1)
    found = [engine.predict(TARGET[:1, t], memory, cache) for t in range(TARGET.shape[1])]
    assert_close(torch.stack(found, 1), plain, rtol=0, atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_go_on_from_other_rows_and_sources_leave(model: Translator, width: int) -> None:
    draw = torch.Generator().manual_seed(width)
    sources = torch.randint(3, 23, (4, 6), generator=draw)
    is_token = torch.arange(6) < torch.tensor([[3], [6], [4], [2]])
    plain, fast = plain_engine(deepcopy(model), CPU), fast_engine(model, CPU)
    steps = [
        translator_step(engine, engine.remember(sources, is_token), width)
        for engine in (plain, fast)
    ]
    alive, parents = list(range(4)), torch.arange(4 * width)
    for length in range(1, 20):
        prefixes = torch.randint(3, 23, (len(parents), length), generator=draw)
        expected, found = (step(prefixes, parents) for step in steps)
        assert_close(found, expected, rtol=0, atol=5e-5)
        stays = [place for place in range(len(alive)) if length not in (3, 9, 15) or place != 1]
        alive = [alive[place] for place in stays]
        slots = torch.randint(width, (len(stays), width), generator=draw)
        parents = (torch.tensor(stays)[:, None] * width + slots).flatten()


@torch.inference_mode()
def test_half_precision_is_close(model: Translator) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET).log_softmax(-1)
    cast = _logits(plain_engine(deepcopy(model), HALF)).log_softmax(-1)
    engine = fast_engine(model, HALF)
    assert engine.runtime == CPU  # nothing is left to cast
    fault = (_logits(engine).log_softmax(-1) - plain).abs().mean()
    assert fault < 2 * (cast - plain).abs().mean() + 0.01
    alone = _logits(engine, slice(0, 1)).log_softmax(-1) - plain[:1]
    assert alone.abs().mean() < 2 * (cast - plain).abs().mean() + 0.05


def test_packed_and_plain_find_the_same_translations() -> None:
    model = _random(SHAPE)
    engines = [plain_engine(deepcopy(model), CPU), fast_engine(model, CPU)]
    draw = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, 23, (n,), generator=draw).tolist() for n in (3, 9, 5, 1, 12)]
    for width in (1, 4):
        found = [
            translate_ids(engine, sources, [12] * 5, (0, 1, 2), Beam(width=width), [0, 1])
            for engine in engines
        ]
        assert [one[0].ids for one in found[0]] == [one[0].ids for one in found[1]]


def test_a_device_without_the_kernels_is_not_packed() -> None:
    assert not can_pack(Runtime(torch.device("meta")))


def test_a_packed_model_has_no_weights_left_to_train() -> None:
    engine = fast_engine(_random(SHAPE), CPU)
    names = {name for name, _ in engine.model.named_parameters()}
    assert not any("attend" in name and "norm" not in name for name in names)
    assert "encoder.embed.weight" in names


@pytest.mark.parametrize("num", [1, 2, 7, 10])
@pytest.mark.parametrize("size", [11, 700, 5_003])
def test_the_largest_are_found_as_sorting_finds_them(num: int, size: int) -> None:
    logs = torch.randn(5, size, generator=torch.Generator().manual_seed(size))
    found, places = best_of(logs, num)
    assert_close(found, logs.topk(num, dim=1).values)
    assert_close(logs.gather(1, places), found)
