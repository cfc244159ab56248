import dataclasses
from dataclasses import fields, replace
from typing import Any

import pytest

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import show
from warmstart.settings.model import (
    PRESETS,
    RARE,
    ArchitectureOverrides,
    ModelConfig,
    apply_overrides,
    model_from_json,
    preset_named,
)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name: str) -> None:
    assert model_from_json(PRESETS[name].to_json()) == PRESETS[name]
    assert preset_named(name) is PRESETS[name]


def test_an_unknown_preset_gets_the_right_one() -> None:
    with pytest.raises(WarmstartError, match=r"--preset='modern-smal'.*'modern-small'"):
        preset_named("modern-smal")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 15}, r"model\.width=15 must be a multiple of model\.heads=2"),
        ({"width": 0}, r"model\.width=0 must be at least 1"),
        ({"heads": -2}, r"model\.heads=-2 must be at least 1"),
        ({"depth": 0}, r"model\.depth=0 must be at least 1"),
        ({"vocab_size": 0}, r"model\.vocab_size=0 must be at least 1"),
        ({"positions": "rope", "width": 6}, r"rope needs an even width per head, not 3"),
        ({"heads": 5, "width": 15}, r"model\.width=15 must be even with .*sinusoidal"),
        ({"dropout": 1.0}, r"model\.dropout=1\.0 must be from 0 to below 1"),
        ({"dropout": -0.1}, r"model\.dropout=-0\.1 must be from 0 to below 1"),
        ({"global_every": 0}, r"model\.global_every=0 must be at least 1"),
        ({"local_rope_base": 0.0}, r"model\.local_rope_base=0\.0 must be above 0"),
        ({"local_window": 4}, r"model\.local_window=4 needs an encoder alone"),
    ],
)
def test_impossible_shapes_are_refused(
    tiny: ModelConfig, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(WarmstartError, match=said):
        replace(tiny, **changes)


def test_rare_settings_are_written_where_they_are_used(tiny: ModelConfig) -> None:
    assert not set(RARE) & set(tiny.to_json())
    windows = replace(tiny, attention="bidirectional", local_window=4, global_every=3)
    assert windows.to_json().items() >= {"local_window": 4, "global_every": 3}.items()
    assert model_from_json(windows.to_json()) == windows


@pytest.mark.parametrize("name", ["attention", "norm", "norm_position", "positions", "activation"])
def test_an_unknown_word_is_never_taken_for_another(tiny: ModelConfig, name: str) -> None:
    with pytest.raises(WarmstartError, match=f"{name}.*'batch'"):
        model_from_json({**tiny.to_json(), name: "batch"})


def test_a_whole_number_becomes_the_float_it_stands_for(tiny: ModelConfig) -> None:
    model = model_from_json({**tiny.to_json(), "norm_eps": 1, "dropout": 0})
    assert [type(model.norm_eps), type(model.dropout)] == [float, float]
    with pytest.raises(WarmstartError, match=r"model\.rope_base=10+\.\.\.0+ must be at most"):
        replace(tiny, rope_base=10**400)


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", "wide"), ("width", 16.0), ("depth", True), ("dropout", False), ("tied", 1)],
)
def test_a_value_of_another_type_is_refused(tiny: ModelConfig, name: str, value: object) -> None:
    said = rf"^runs/a/config\.json: model\.{name}={show(value)} must be "
    with pytest.raises(WarmstartError, match=said):
        model_from_json({**tiny.to_json(), name: value}, "runs/a/config.json")


def test_a_shape_is_keys_and_values() -> None:
    with pytest.raises(WarmstartError, match=r"config\.json: model=3 must be an object"):
        model_from_json(3)


def test_keys_of_another_version_are_named(tiny: ModelConfig) -> None:
    data = tiny.to_json()
    with pytest.raises(WarmstartError, match=r"do not fit this version: \['colour'\]"):
        model_from_json({**data, "colour": "blue"})
    del data["norm"]
    with pytest.raises(WarmstartError, match=r"do not fit this version: \['norm'\]"):
        model_from_json(data)


def test_words_given_replace_the_presets() -> None:
    lab = PRESETS["lab"]
    assert apply_overrides(lab, ArchitectureOverrides()) == lab
    changed = apply_overrides(
        lab, ArchitectureOverrides(norm="rms", tied=True, dropout=0.0, biases=False)
    )
    expected = {"norm": "rms", "tied": True, "dropout": 0.0, "biases": False}
    assert changed == replace(lab, **expected)
    with pytest.raises(WarmstartError, match="--width 200 must be a multiple of --heads 3"):
        apply_overrides(lab, ArchitectureOverrides(heads=3))


def test_every_word_is_a_field_of_the_shape() -> None:
    assert {field.name for field in fields(ArchitectureOverrides)} <= {
        field.name for field in fields(ModelConfig)
    }


def test_shapes_are_frozen(tiny: ModelConfig) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny.width = 32  # type: ignore[misc]


def test_the_course_shape() -> None:
    lab = PRESETS["lab"]
    words = (lab.attention, lab.norm, lab.norm_position, lab.positions, lab.activation)
    assert words == ("causal", "layer", "post", "sinusoidal", "relu")
    assert (lab.tied, lab.biases) == (False, True)
