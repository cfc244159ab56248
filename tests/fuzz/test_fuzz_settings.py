"""No content of a settings file or a model configuration raises more than a `WarmstartError`."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import damaged, fuzzed, scraps
from hypothesis import given
from hypothesis import strategies as st

from warmstart.comparison.commands import CompareConfig
from warmstart.errors import WarmstartError
from warmstart.planning.commands import ParamsConfig
from warmstart.settings.base import Settings, read_settings_file
from warmstart.settings.model import PRESETS, model_from_json
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig
from warmstart.settings.using import TokenizerConfig

Place = Callable[[str, bytes], Path]
JOBS: tuple[type[Settings], ...] = (
    PretrainConfig,
    FinetuneConfig,
    CompareConfig,
    TokenizerConfig,
    ParamsConfig,
    TrainTranslatorConfig,
)
TOML = b'files = ["a.txt"]\nout = "run"\nsteps = 10\nlearning-rate = 1e-3\n[a]\nb = 2020-01-01\n'
JSON = b'{"command": "pretrain", "settings": {"files": ["a"], "out": "b", "steps": 3}}'
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SHAPE = PRESETS["tiny"].to_json()


@pytest.mark.parametrize("name", ["a.toml", "a.json"])
@fuzzed
@given(st.data())
def test_settings_files(place: Place, name: str, data: st.DataObject) -> None:
    path = place(name, data.draw(scraps(TOML, JSON, b"steps = ", b"[") | damaged([TOML, JSON])))
    for job in JOBS:
        with contextlib.suppress(WarmstartError):
            job.from_values(read_settings_file(path, "pretrain"))


@pytest.mark.parametrize("job", JOBS)
@fuzzed
@given(st.data())
def test_values(job: type[Settings], data: st.DataObject) -> None:
    keys = [setting.key for setting in job.declared()]
    values = data.draw(st.dictionaries(st.sampled_from(keys) | st.text(max_size=5), VALUES))
    with contextlib.suppress(WarmstartError):
        made = job.from_values(values)
        assert made.changed_from(made.recorded()) == []


@fuzzed
@given(st.dictionaries(st.sampled_from(sorted(SHAPE)), VALUES, max_size=4), VALUES)
def test_shapes(changes: dict[str, Any], other: Any) -> None:
    with contextlib.suppress(WarmstartError):
        model_from_json(SHAPE | changes)
    with contextlib.suppress(WarmstartError):
        model_from_json(other)
    assert json.loads(json.dumps(SHAPE)) == SHAPE
