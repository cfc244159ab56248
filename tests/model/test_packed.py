"""A packed translator says what the plain one says."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from warmstart.config.model import ModelConfig
from warmstart.decode.beam import Beam
from warmstart.decode.steps import translate_ids
from warmstart.model.packed import can_pack, pack_translator
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


@torch.inference_mode()
def test_packing_changes_nothing_but_rounding(model: Translator) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET)
    packed = deepcopy(model)
    assert pack_translator(packed, CPU) == CPU
    assert_close(packed(SOURCE, IS_TOKEN, TARGET), plain, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_half_precision_is_close(model: Translator) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET).log_softmax(-1)
    packed = deepcopy(model)
    runtime = pack_translator(packed, HALF)
    assert runtime == CPU  # nothing is left to cast
    with HALF.precision():
        cast = model(SOURCE, IS_TOKEN, TARGET).float().log_softmax(-1)
    found = packed(SOURCE, IS_TOKEN, TARGET)
    fault = (found.float().log_softmax(-1) - plain).abs().mean()
    assert fault < 2 * (cast - plain).abs().mean() + 0.01


def test_packed_and_plain_find_the_same_translations() -> None:
    model = _random(SHAPE)
    packed = deepcopy(model)
    pack_translator(packed, CPU)
    draw = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, 23, (n,), generator=draw).tolist() for n in (3, 9, 5, 1, 12)]
    for width in (1, 4):
        found = [
            translate_ids(one, sources, [12] * 5, (0, 1, 2), Beam(width=width), [0, 1], CPU)
            for one in (model, packed)
        ]
        assert [one[0].ids for one in found[0]] == [one[0].ids for one in found[1]]


def test_a_device_without_the_kernels_is_not_packed() -> None:
    assert not can_pack(Runtime(torch.device("meta")))


def test_a_packed_model_has_no_weights_left_to_train() -> None:
    model = _random(SHAPE)
    pack_translator(model, CPU)
    names = {name for name, _ in model.named_parameters()}
    assert not any("attend" in name and "norm" not in name for name in names)
    assert "encoder.embed.weight" in names
