from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.commands import COMMANDS
from warmstart.comparison.commands import CompareConfig
from warmstart.errors import WarmstartError
from warmstart.look.commands import LookExploreConfig
from warmstart.settings.base import Setting, Settings
from warmstart.settings.training import MAX_PASSES, PretrainConfig, TrainTranslatorConfig

ALL = [command.settings for commands in COMMANDS.values() for command in commands]
NEEDED = {"files": ["a"], "from": ["a"], "out": "a.png"}
COMPARE = {"from": ["run"], "train": "t", "valid": "v", "out": "o"}


def _pretrain(**values: Any) -> PretrainConfig:
    return PretrainConfig.from_values({"files": ["a.txt"], "out": "run", **values})


@pytest.mark.parametrize("settings", ALL)
def test_keys_and_short_flags_are_unique(settings: type[Settings]) -> None:
    declared = settings.declared()
    assert {setting.name for setting in declared} == {field.name for field in fields(settings)}
    assert len({setting.key for setting in declared}) == len(declared)
    shorts = [setting.short for setting in declared if setting.short]
    assert len(set(shorts)) == len(shorts)


@pytest.mark.parametrize("settings", ALL)
def test_defaults_are_within_their_own_limits(settings: type[Settings]) -> None:
    required = [setting.key for setting in settings.declared() if setting.is_required]
    values = {key: NEEDED.get(key, "a") for key in required}
    if issubclass(settings, CompareConfig):
        values["from"] = ["a"]
    if settings is TrainTranslatorConfig:
        values |= {"train": "a", "valid": "b"}
    if settings is LookExploreConfig:
        values["out"] = "a.html"
    built = settings.from_values(values)
    assert built.changed_from(built.recorded()) == []
    assert settings.from_values({**values, **built.recorded()}) == built


@pytest.mark.parametrize("setting", [s for c in ALL for s in c.declared() if s.short == "-o"])
def test_no_command_writes_a_file_called_dash(setting: Setting) -> None:
    with pytest.raises(WarmstartError, match="-o - does not stand for standard output"):
        setting.check("-")


@given(st.integers(1, 10**18), st.integers(2, 10**6), st.integers(3, 4096))
def test_steps_see_the_tokens_asked_for(tokens: int, batch_tokens: int, length: int) -> None:
    config = _pretrain(tokens=tokens, batch_tokens=batch_tokens)
    seen = config.rows_per_step(length) * length  # in one step
    assert seen <= max(batch_tokens, length)
    steps = config.num_steps(length, text_tokens=1)
    assert (steps - 1) * seen < tokens <= steps * seen


def test_steps_or_tokens() -> None:
    assert _pretrain(steps=7).num_steps(64, text_tokens=10**9) == 7
    read_often = _pretrain(batch_tokens=64).num_steps(64, text_tokens=6400)
    assert read_often == 100 * MAX_PASSES
    assert _pretrain(steps=7).time is None
    assert _pretrain().time is not None
    with pytest.raises(WarmstartError, match="--steps and --tokens are mutually exclusive"):
        _pretrain(steps=7, tokens=7)


def test_nothing_recorded_depends_on_the_machine() -> None:
    before = _pretrain().recorded()
    again = _pretrain(device="cpu", threads=3, save_every=7, keep=1, compile=False)
    assert again.changed_from(before) == []
    assert _pretrain(precision="bf16").changed_from(before) != []


def test_a_flag_replaces_what_it_excludes_in_a_file() -> None:
    file = {"steps": 7, "tokens": None, "seed": 1}
    assert PretrainConfig.override(file, {"tokens": 9}) == {"tokens": 9, "seed": 1}
    assert PretrainConfig.override(file, {"steps": 9, "seed": 2}) == {"steps": 9, "seed": 2}


@pytest.mark.parametrize("seeds", [[], [1, 1], [0, 2, 0]])
def test_seeds_must_differ(seeds: list[int]) -> None:
    with pytest.raises(WarmstartError, match=r"--seeds \[.*\] must be different numbers"):
        CompareConfig.from_values({**COMPARE, "seeds": seeds})


@pytest.mark.parametrize("size", ["1", "0", "-5", "some", "", "1.5"])
def test_label_sizes(size: str) -> None:
    with pytest.raises(WarmstartError, match=f"--labels '{size}' must be a number from 2 up"):
        CompareConfig.from_values({**COMPARE, "labels": ["50", size]})
    assert CompareConfig.from_values({**COMPARE, "labels": ["50", "all"]}).labels == ("50", "all")
    with pytest.raises(WarmstartError, match="--labels is empty"):
        CompareConfig.from_values({**COMPARE, "labels": []})


@pytest.mark.parametrize(
    ("values", "steps", "device", "is_compiled"),
    [
        ({}, 10_000, "cuda", True),
        ({}, 10_000, "cpu", False),
        ({}, 200, "cuda", False),  # a small text
        ({"steps": 200}, 200, "cuda", False),
        ({"steps": 2000}, 2000, "cuda", True),
        ({"minutes": 0.5}, 10_000, "cuda", False),
        ({"steps": 200, "compile": True}, 200, "cuda", True),
        ({"compile": False}, 10_000, "cuda", False),
    ],
)
def test_only_a_training_that_repays_it_is_compiled(
    values: dict[str, Any], steps: int, device: str, is_compiled: bool
) -> None:
    assert _pretrain(**values).is_compiled(steps, device) == is_compiled
