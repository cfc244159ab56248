"""Fast steps of a language model predict what the model predicts, after a prompt of any length."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from one_sample import GREEDY, sample
from warmstart.decoding.beam import SpecialIds, sample_texts
from warmstart.decoding.engines import Begin, fast_steps, packed_steps, plain_steps, recorded_steps
from warmstart.decoding.packed import unsupported_setting
from warmstart.kernels import inference as caches
from warmstart.kernels.inference import can_pack
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.settings.using import Sampling

Steps = Callable[[LanguageModel, Runtime], Begin]
needs_packing = pytest.mark.skipif(
    not can_pack(torch.device("cpu")), reason="no kernels for packed weights"
)
every_way = pytest.mark.parametrize(
    "steps", [plain_steps, pytest.param(packed_steps, marks=needs_packing), recorded_steps]
)
ROW = torch.zeros(1, dtype=torch.long)


@pytest.fixture
def model(some_shape: ModelConfig, randomised: Callable[[Any], Any]) -> LanguageModel:
    shape = replace(some_shape, max_length=40, attention="causal")
    found: LanguageModel = randomised(LanguageModel(shape)).eval()
    return found


@every_way
@pytest.mark.parametrize("num_read", [1, 3, 9])
@torch.inference_mode()
def test_one_token_at_a_time_gives_what_all_at_once_gives(
    model: LanguageModel,
    cpu: Runtime,
    steps: Steps,
    num_read: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caches, "STATIC_CAPACITY", 4)
    ids = torch.randint(model.config.vocab_size, (1, 30), generator=torch.Generator())
    expected = model(ids)[0].log_softmax(-1)
    step = steps(model, cpu)()
    for num in range(num_read, 31):
        assert_close(step(ids[:, :num], ROW)[0], expected[num - 1], rtol=1e-4, atol=5e-5)


@every_way
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0, top_k=5)])
@torch.inference_mode()
def test_cached_decoding_equals_uncached(
    model: LanguageModel, cpu: Runtime, steps: Steps, sampling: Sampling
) -> None:
    def uncached(prefixes: Tensor, _: Tensor) -> Tensor:
        return model(prefixes)[:, -1].float().log_softmax(-1)

    special = SpecialIds(1, model.config.vocab_size, [0, 1])  # no token ends the text
    begin = steps(model, cpu)
    texts = [
        sample(step, [1, 5, 9], 25, special, sampling, seed=4)
        for step in (begin(), uncached, begin())
    ]
    assert texts[0] == texts[1] == texts[2]
    assert len(texts[0]) == 25


@every_way
@torch.inference_mode()
def test_texts_written_together_are_those_written_one_by_one(
    model: LanguageModel, cpu: Runtime, steps: Steps
) -> None:
    begin, ends = steps(model, cpu), SpecialIds(1, 7, [0, 1])
    hot, generators = Sampling(temperature=2.0), [torch.Generator() for _ in range(9)]
    for seed, generator in enumerate(generators):
        generator.manual_seed(seed)
    alone = [sample(begin(), [1, 5, 9], 30, ends, hot, seed) for seed in range(9)]
    together: list[list[int]] = [[] for _ in alone]
    for tokens in sample_texts(begin(), [1, 5, 9], 30, ends, hot, generators):
        for text, token in tokens.items():
            together[text].append(token)
    assert together == alone
    assert len({len(text) for text in alone}) > 2  # they end at different times


@needs_packing
@torch.inference_mode()
def test_half_precision_is_close(model: LanguageModel) -> None:
    half = Runtime(torch.device("cpu"), torch.bfloat16)
    ids = torch.tensor([[1, 5, 9, 4, 2, 7, 3]])
    expected = model(ids)[0].log_softmax(-1)
    plain, packed, recorded = (
        torch.stack([step(ids[:, :num], ROW)[0] for num in range(1, 8)])
        for step in (steps(model, half)() for steps in (plain_steps, packed_steps, recorded_steps))
    )
    for found in (packed, recorded):
        error = (found - expected).abs().mean()
        assert error < 2 * (plain - expected).abs().mean() + 0.01


@needs_packing
@pytest.mark.parametrize(
    "settings",
    [
        {"transform": True, "activation": "gelu", "segments": 2, "pooler": True},
        {"norm_position": "pre", "first_norm": False, "activation": "relu"},
        {"biases": False, "tied": False, "activation": "geglu"},
        {"output_bias": False, "embedding_norm": True, "positions": "learned"},
    ],
    ids=lambda settings: next(iter(settings)),
)
@torch.inference_mode()
def test_every_setting_is_implemented(
    settings: dict[str, Any], tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime
) -> None:
    model: LanguageModel = randomised(LanguageModel(replace(tiny, **settings))).eval()
    ids = torch.tensor([[1, 5, 9, 4, 2, 7, 3]])
    expected = model(ids)[0].log_softmax(-1)
    for steps in (packed_steps, recorded_steps):
        step = steps(model, cpu)()
        for num in range(2, 8):
            assert_close(step(ids[:, :num], ROW)[0], expected[num - 1], rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_generates_fast(preset: str) -> None:
    assert unsupported_setting(replace(PRESETS[preset], attention="causal")) is None


@torch.inference_mode()
def test_what_the_fast_ways_do_not_implement_is_generated_plainly(
    tiny: ModelConfig, cpu: Runtime
) -> None:
    model = LanguageModel(replace(tiny, ablated="scale")).eval()
    with pytest.raises(ValueError, match=r"does not implement model\.ablated='scale'"):
        packed_steps(model, cpu)
    ids = torch.tensor([[1, 5, 9]])
    expected = model(ids)[:, -1].log_softmax(-1)
    assert_close(fast_steps(model, cpu)()(ids, ROW), expected, rtol=0, atol=1e-5)
