"""Fast engines predict what the plain engine predicts, and refuse what they do not implement."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from shapes import TINY
from warmstart import progress
from warmstart.decoding.beam import SpecialIds
from warmstart.decoding.engines import (
    Engine,
    fast_engine,
    packed_engine,
    plain_engine,
    recorded_engine,
    translate_ids,
)
from warmstart.decoding.packed import unsupported_setting
from warmstart.kernels import inference as caches
from warmstart.kernels.inference import can_pack
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS, ModelConfig, decoder_config
from warmstart.settings.using import Beam

SHAPE = replace(TINY, decoder_depth=2)
EngineType = Callable[[Translator, Runtime], Engine]
CPU = Runtime(torch.device("cpu"))
HALF = Runtime(torch.device("cpu"), torch.bfloat16)
SOURCE = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]])
IS_TOKEN = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
TARGET = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16]])

pytestmark = pytest.mark.skipif(
    not can_pack(CPU.device), reason="no kernels for packed weights here"
)


def _random(shape: ModelConfig) -> Translator:
    model = Translator(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {"tied": True},
    "untied": {"tied": False},
    "separate": {"tied": True, "shared": False, "target_vocab_size": 29},
    "unbiased": {"tied": False, "biases": False, "activation": "swiglu"},
    "silu": {"tied": True, "activation": "silu"},
}


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest, some_shape: ModelConfig) -> Translator:
    return _random(replace(some_shape, decoder_depth=2, **VARIANTS[request.param]))


@pytest.fixture(
    params=[
        ("tied", "sinusoidal", "post", "layer"),
        ("untied", "learned", "pre", "rms"),
        ("separate", "rope", "post", "rms"),
        ("unbiased", "rope", "pre", "layer"),
    ],
    ids="-".join,
)
def varied(request: pytest.FixtureRequest) -> Translator:
    """Return models in which every setting has each of its values."""
    variant, positions, norm_position, norm = request.param
    choices = {"positions": positions, "norm_position": norm_position, "norm": norm}
    return _random(replace(SHAPE, **choices, **VARIANTS[variant]))


def _lists(source: Tensor, is_token: Tensor) -> list[list[int]]:
    return [row[mask].tolist() for row, mask in zip(source, is_token, strict=True)]


def _log_probs(engine: Engine, source: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
    """Return log-probabilities (B, T, V) of the target, one token at a time."""
    rows = torch.arange(len(target))
    with engine.runtime.precision():
        step = engine.begin(engine.encode(_lists(source, is_token)), 1)
        found = [step(target[:, : t + 1], rows) for t in range(target.shape[1])]
    return torch.stack(found, 1).float()


@pytest.mark.parametrize("engine_type", [plain_engine, packed_engine, recorded_engine])
@torch.inference_mode()
def test_engines_differ_by_rounding_only(model: Translator, engine_type: EngineType) -> None:
    plain = model(SOURCE, IS_TOKEN, TARGET).log_softmax(-1)
    found = _log_probs(engine_type(model, CPU), SOURCE, IS_TOKEN, TARGET)
    assert_close(found, plain, rtol=0, atol=3e-5)


@torch.inference_mode()
def test_a_single_short_source_has_a_path_of_its_own(model: Translator) -> None:
    plain = model(SOURCE[:1], None, TARGET[:1]).log_softmax(-1)
    is_token = torch.ones_like(SOURCE[:1]).bool()
    found = _log_probs(fast_engine(model, CPU), SOURCE[:1], is_token, TARGET[:1])
    assert_close(found, plain, rtol=0, atol=3e-5)


@pytest.mark.parametrize("engine_type", [packed_engine, recorded_engine])
@pytest.mark.parametrize("width", [1, 2, 3])
@torch.inference_mode()
def test_rows_continue_other_rows_and_sources_leave(
    monkeypatch: pytest.MonkeyPatch, varied: Translator, width: int, engine_type: EngineType
) -> None:
    monkeypatch.setattr(caches, "STATIC_CAPACITY", 4)
    draw = torch.Generator().manual_seed(width)
    sources = torch.randint(3, 23, (5, 6), generator=draw)
    is_token = torch.arange(6) < torch.tensor([[3], [6], [4], [2], [5]])
    engines = plain_engine(varied, CPU), engine_type(varied, CPU)
    steps = [engine.begin(engine.encode(_lists(sources, is_token)), width) for engine in engines]
    num, parents = len(sources), torch.arange(len(sources) * width)
    for length in range(1, 20):
        prefixes = torch.randint(3, 23, (len(parents), length), generator=draw)
        expected, found = (step(prefixes, parents) for step in steps)
        assert_close(found, expected, rtol=0, atol=5e-5)
        remaining = [source for source in range(num) if length not in (3, 7, 15) or source != 1]
        num = len(remaining)
        slots = torch.randint(width, (num, width), generator=draw)
        parents = (torch.tensor(remaining)[:, None] * width + slots).flatten()


@torch.inference_mode()
def test_half_precision_is_close(model: Translator) -> None:
    texts = SOURCE, IS_TOKEN, TARGET
    plain = model(*texts).log_softmax(-1)
    cast = _log_probs(plain_engine(model, HALF), *texts)
    recorded = _log_probs(recorded_engine(model, HALF), *texts)
    engine = fast_engine(model, HALF)
    assert engine.runtime == CPU  # nothing is left to cast
    for found in (recorded, _log_probs(engine, *texts)):
        assert (found - plain).abs().mean() < 2 * (cast - plain).abs().mean() + 0.01
    alone = _log_probs(engine, SOURCE[:1], IS_TOKEN[:1], TARGET[:1]) - plain[:1]
    assert alone.abs().mean() < 2 * (cast - plain).abs().mean() + 0.05


def test_every_engine_finds_the_same_translations() -> None:
    model = _random(SHAPE)
    engines = [engine(model, CPU) for engine in (plain_engine, recorded_engine, packed_engine)]
    draw = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, 23, (n,), generator=draw).tolist() for n in (3, 9, 5, 1, 12)]
    special = SpecialIds(bos=1, eos=2, suppressed=[0, 1])
    for width in (1, 4):
        found = [
            translate_ids(engine, sources, [12] * 5, special, Beam(beam=width))
            for engine in engines
        ]
        best = [[hypotheses[0].ids for hypotheses in each] for each in found]
        assert best[0] == best[1] == best[2]


def test_a_device_without_the_kernels_is_not_packed() -> None:
    assert not can_pack(torch.device("meta"))


@pytest.mark.parametrize("runtime", [CPU, HALF], ids=["fp32", "bf16"])
def test_an_engine_leaves_the_model_as_it_was(varied: Translator, runtime: Runtime) -> None:
    texts = SOURCE, IS_TOKEN, TARGET
    before, names = deepcopy(varied.state_dict()), [name for name, _ in varied.named_modules()]
    output = varied(*texts).detach()
    engine = fast_engine(varied, runtime)
    assert not any(isinstance(m, torch.nn.Linear) for m in engine.encoder.modules())
    with torch.inference_mode():
        _log_probs(engine, *texts)
    assert [name for name, _ in varied.named_modules()] == names
    assert_close(varied.state_dict(), before, rtol=0, atol=0)
    assert torch.equal(varied(*texts), output)
    varied(*texts).logsumexp(-1).sum().backward()
    assert all(p.requires_grad and p.grad is not None for p in varied.parameters())


class UncheckedConfig(ModelConfig):
    """A config that accepts any value, as one with a new kind of positions would."""

    def __post_init__(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class NewerConfig(ModelConfig):
    """A config with a setting that no engine has heard of."""

    query_norm: bool = False


@pytest.mark.parametrize("name", ["positions", "norm", "norm_position", "activation"])
def test_an_unknown_value_is_unsupported(name: str) -> None:
    config = UncheckedConfig(**asdict(SHAPE) | {name: "another"})
    assert unsupported_setting(decoder_config(config)) == f"model.{name}='another'"


@pytest.mark.parametrize("engine_type", [packed_engine, recorded_engine])
@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (UncheckedConfig(**asdict(SHAPE) | {"positions": "alibi"}), "positions='alibi'"),
        (NewerConfig(**asdict(SHAPE)), "query_norm=False"),
        (replace(SHAPE, ablated="scale"), "ablated='scale'"),
    ],
    ids=["value", "setting", "ablated"],
)
@torch.inference_mode()
def test_fast_engines_refuse_an_unknown_architecture(
    config: ModelConfig,
    setting: str,
    engine_type: EngineType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _random(config)
    with pytest.raises(ValueError, match=rf"does not implement model\.{setting}"):
        engine_type(model, CPU)
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    engine = fast_engine(model, CPU)
    assert f"do not implement model.{setting}" in said[0]
    assert engine.encoder is model.encoder  # the plain engine copies and packs nothing
    plain = model(SOURCE, IS_TOKEN, TARGET).log_softmax(-1)
    assert_close(_log_probs(engine, SOURCE, IS_TOKEN, TARGET), plain, rtol=0, atol=3e-5)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_implemented(preset: str) -> None:
    shape = replace(PRESETS[preset], decoder_depth=2)
    assert unsupported_setting(decoder_config(shape)) is None
