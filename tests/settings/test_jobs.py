from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.errors import WarmstartError
from warmstart.settings import training as jobs
from warmstart.settings.base import Settings, key_of, option_of
from warmstart.settings.training import CompareConfig, PretrainConfig

JOBS = [
    value
    for value in vars(jobs).values()
    if isinstance(value, type) and issubclass(value, Settings) and value is not Settings
]
COMPARE = {"from": ["run"], "train": "t", "valid": "v", "out": "o"}


def _pretrain(**values: Any) -> PretrainConfig:
    return PretrainConfig.from_values({"files": ["a.txt"], "out": "run", **values})


@pytest.mark.parametrize("job", JOBS)
def test_every_setting_says_what_it_is(job: type[Settings]) -> None:
    assert all(option_of(field).help for field in fields(job))
    keys = [key_of(field) for field in fields(job)]
    assert len(set(keys)) == len(keys)
    shorts = [option_of(field).short for field in fields(job) if option_of(field).short]
    assert len(set(shorts)) == len(shorts)


@pytest.mark.parametrize("job", JOBS)
def test_defaults_are_within_their_own_limits(job: type[Settings]) -> None:
    needed = {"files": ["a"], "from": ["a"]}
    values = {
        key_of(field): needed.get(key_of(field), "a")
        for field in fields(job)
        if field.default is field.default_factory  # both missing: it has to be given
    }
    built = job.from_values(values)
    assert built.changed_from(built.recorded()) == []
    assert job.from_values({**values, **built.recorded()}) == built


@given(st.integers(1, 10**18), st.integers(2, 10**6), st.integers(3, 4096))
def test_steps_see_the_tokens_asked_for(tokens: int, batch_tokens: int, length: int) -> None:
    config = _pretrain(tokens=tokens, batch_tokens=batch_tokens)
    seen = config.rows_per_step(length) * length  # in one step
    assert seen <= max(batch_tokens, length)
    steps = config.num_steps(length)
    assert (steps - 1) * seen < tokens <= steps * seen


def test_steps_or_tokens() -> None:
    assert _pretrain().num_steps(64) == 1000
    assert _pretrain(steps=7).num_steps(64) == 7
    with pytest.raises(WarmstartError, match="--steps and --tokens exclude each other"):
        _pretrain(steps=7, tokens=7)


def test_nothing_recorded_depends_on_the_machine() -> None:
    before = _pretrain().recorded()
    again = _pretrain(device="cpu", threads=3, save_every=7, keep=1, compile=False)
    assert again.changed_from(before) == []
    assert _pretrain(precision="bf16").changed_from(before) != []


def test_a_flag_takes_the_place_of_its_rival_in_a_file() -> None:
    file = {"steps": 7, "tokens": None, "seed": 1}
    assert PretrainConfig.overridden(file, {"tokens": 9}) == {"tokens": 9, "seed": 1}
    assert PretrainConfig.overridden(file, {"steps": 9, "seed": 2}) == {"steps": 9, "seed": 2}


@pytest.mark.parametrize("seeds", [[], [1, 1], [0, 2, 0]])
def test_seeds_must_differ(seeds: list[int]) -> None:
    with pytest.raises(WarmstartError, match=r"--seeds \[.*\] must be different numbers"):
        CompareConfig.from_values({**COMPARE, "seeds": seeds})


@pytest.mark.parametrize("size", ["1", "0", "-5", "some", "", "1.5"])
def test_label_sizes(size: str) -> None:
    with pytest.raises(WarmstartError, match=f"--labels '{size}' must be a number from 2 up"):
        CompareConfig.from_values({**COMPARE, "labels": ["50", size]})
    assert CompareConfig.from_values({**COMPARE, "labels": ["50", "all"]}).labels == ("50", "all")
