"""A packed translator says what the plain one says."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from warmstart.decoding.beam import Beam, best_of
from warmstart.decoding.engines import (
    Engine,
    fast_engine,
    plain_engine,
    recorded_engine,
    translate_ids,
)
from warmstart.decoding.packed import can_pack
from warmstart.model import cache
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig

SHAPE = ModelConfig(
    vocab_size=23,
    width=16,
    depth=2,
    heads=2,
    ffn_width=24,
    max_length=32,
    dropout=0.0,
    decoder_depth=2,
)
Kind = Callable[[Translator, Runtime], Engine]
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


def _logs(engine: Engine, source: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
    """Return log-probabilities (B, T, V) of the target, one token at a time."""
    rows = torch.arange(len(target))
    with engine.runtime.precision():
        step = engine.begin(engine.remember(source, is_token), 1)
        found = [step(target[:, : t + 1], rows) for t in range(target.shape[1])]
    return torch.stack(found, 1).float()


@pytest.mark.parametrize("kind", [plain_engine, fast_engine, recorded_engine])
@torch.inference_mode()
def test_no_engine_changes_more_than_rounding(model: Translator, kind: Kind) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET).log_softmax(-1)
    assert_close(_logs(kind(model, CPU), SOURCE, IS_TOKEN, TARGET), plain, rtol=0, atol=3e-5)


@torch.inference_mode()
def test_a_single_short_source_is_read_in_its_own_way(model: Translator) -> None:
    plain = model(SOURCE[:1], None, TARGET[:1]).log_softmax(-1)
    is_token = torch.ones_like(SOURCE[:1]).bool()
    found = _logs(fast_engine(model, CPU), SOURCE[:1], is_token, TARGET[:1])
    assert_close(found, plain, rtol=0, atol=3e-5)


@pytest.mark.parametrize("kind", [fast_engine, recorded_engine])
@pytest.mark.parametrize("width", [1, 2, 3])
@torch.inference_mode()
def test_rows_go_on_from_other_rows_and_sources_leave(
    monkeypatch: pytest.MonkeyPatch, model: Translator, width: int, kind: Kind
) -> None:
    monkeypatch.setattr(cache, "STATIC_ROOM", 4)
    draw = torch.Generator().manual_seed(width)
    sources = torch.randint(3, 23, (5, 6), generator=draw)
    is_token = torch.arange(6) < torch.tensor([[3], [6], [4], [2], [5]])
    engines = plain_engine(deepcopy(model), CPU), kind(model, CPU)
    memories = [engine.remember(sources, is_token) for engine in engines]
    steps = [one.begin(memory, width) for one, memory in zip(engines, memories, strict=True)]
    num, parents = len(sources), torch.arange(len(sources) * width)
    for length in range(1, 20):
        prefixes = torch.randint(3, 23, (len(parents), length), generator=draw)
        expected, found = (step(prefixes, parents) for step in steps)
        assert_close(found, expected, rtol=0, atol=5e-5)
        stays = [place for place in range(num) if length not in (3, 7, 15) or place != 1]
        num = len(stays)
        slots = torch.randint(width, (num, width), generator=draw)
        parents = (torch.tensor(stays)[:, None] * width + slots).flatten()


@torch.inference_mode()
def test_half_precision_is_close(model: Translator) -> None:
    texts = SOURCE, IS_TOKEN, TARGET
    plain = model(*texts).log_softmax(-1)
    cast = _logs(plain_engine(deepcopy(model), HALF), *texts)
    recorded = _logs(recorded_engine(deepcopy(model), HALF), *texts)
    engine = fast_engine(model, HALF)
    assert engine.runtime == CPU  # nothing is left to cast
    for found in (recorded, _logs(engine, *texts)):
        assert (found - plain).abs().mean() < 2 * (cast - plain).abs().mean() + 0.01
    alone = _logs(engine, SOURCE[:1], IS_TOKEN[:1], TARGET[:1]) - plain[:1]
    assert alone.abs().mean() < 2 * (cast - plain).abs().mean() + 0.05


def test_packed_and_plain_find_the_same_translations() -> None:
    model = _random(SHAPE)
    kinds = plain_engine, recorded_engine, fast_engine
    engines = [kind(deepcopy(model), CPU) for kind in kinds]
    draw = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, 23, (n,), generator=draw).tolist() for n in (3, 9, 5, 1, 12)]
    for width in (1, 4):
        found = [
            translate_ids(engine, sources, [12] * 5, (0, 1, 2), Beam(width=width), [0, 1])
            for engine in engines
        ]
        best = [[one[0].ids for one in each] for each in found]
        assert best[0] == best[1] == best[2]


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
