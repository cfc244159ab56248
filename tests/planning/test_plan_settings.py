"""`plan` plans what the command would run: the same settings, on every kind of device."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, QUICK, SHAPE, World, figures, read, succeed
from toy_pairs import FILES, SHORT, Toy
from warmstart.planning.devices import known_devices
from warmstart.recipes import finetune, pretrain, train_translator
from warmstart.runs.saved import read_run
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig

DEVICES = {"cpu": "laptop-cpu", "cuda": "h200"}
LABELLED = "--train {train} --valid {valid}"
RECIPES: dict[str, tuple[Any, Any]] = {
    "pretrain": (pretrain, PretrainConfig),
    "finetune": (finetune, FinetuneConfig),
    "train-translator": (train_translator, TrainTranslatorConfig),
}
COMMANDS = [
    "pretrain {texts}",
    "pretrain {texts} --objective causal --preset lab --tokens 1000000",
    "pretrain {texts} --nsp --preset bert-base --steps 100",
    "pretrain {texts} --from {masked} --minutes 3",
    f"finetune {LABELLED}",
    f"finetune {LABELLED} --from {{masked}} --epochs 2",
    f"finetune {LABELLED} --from {{masked}} --frozen",
    f"train-translator {FILES}",
    f"train-translator {FILES} --preset vaswani-base --optimizer adamw --minutes 5",
    f"train-translator {FILES} --from {{masked}} --steps 9",
]


@pytest.fixture
def places(world: World, toy: Toy, masked: Path) -> dict[str, object]:
    return {**vars(world), **vars(toy), "masked": masked}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("command", COMMANDS)
def test_settings_are_those_that_the_command_resolves(
    command: str, device: str, places: dict[str, object]
) -> None:
    found = figures(f"plan {command} --on {DEVICES[device]}", **places)
    recipe, settings_class = RECIPES[found["command"]]
    written = {s.key: found["settings"][s.key] for s in settings_class.declared() if s.recorded}
    words = command.format(**places).split()
    given = {
        s.key: None for s in settings_class.declared() if s.flag not in words and s.default is None
    }
    config = settings_class.from_values({**written, **given, "out": "run"})
    parent = read_run(config.from_run) if config.from_run else None
    resolved = recipe.resolve(config, None, parent, device).recorded()
    by_data = {"consistency"}
    assert {k: v for k, v in written.items() if k not in by_data} == {
        k: v for k, v in resolved.items() if k not in by_data
    }
    job = found["job"]
    tokens = resolved.get("batch_tokens") or job["rows"] * job["length"]
    row_tokens = job["length"] * job["sides"]
    assert tokens - row_tokens < job["rows"] * row_tokens <= tokens
    assert found["precision"] == ("bf16" if device == "cuda" else "fp32")
    if found["command"] == "pretrain":
        assert job["task"] == resolved["objective"]
        assert job["length"] == resolved["max_length"]
        is_masked = resolved["objective"] == "masked"
        assert job["mask_rate"] == (resolved["mask_rate"] if is_masked else None)
    if resolved.get("steps"):
        assert found["steps"] == resolved["steps"]


def test_the_defaults_on_a_gpu_are_planned() -> None:
    found = figures("plan modern-small --on h200")
    job, settings = found["job"], found["settings"]
    assert (job["task"], job["mask_rate"], job["is_compiled"]) == ("masked", 0.3, True)
    assert job["rows"] * job["length"] == settings["batch_tokens"] == 32_768
    assert settings["minutes"] == 10
    assert found["steps"] == pytest.approx(600 / found["time"]["step_s"], abs=1)
    assert found["passes"] is None
    assert "without text, the number of passes over it is unknown" in found["sentences"]


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        (f"pretrain {{texts}} {SHAPE} --batch-tokens 64 --steps 2", 2),
        (f"pretrain {{texts}} {SHAPE} --batch-tokens 64 --tokens 640 --objective causal", 10),
        (f"finetune {LABELLED} --from {{masked}} {QUICK}", None),
        (f"finetune {LABELLED} --from {{masked}} --frozen {QUICK}", None),
        (f"train-translator {FILES} {SHORT}", 6),
    ],
)
def test_a_run_is_what_was_planned(
    command: str, steps: int | None, places: dict[str, object], here: Path
) -> None:
    command = f"{command} {MACHINE} --device cpu"
    planned = figures(f"plan {command} --no-measure", **places)
    succeed(f"{command} -o run", **places)
    config = read(here / "run" / "config.json")
    assert planned["parameters"] == figures("params run")["total"]
    assert planned["job"]["task"] == config["task"]
    assert planned["job"]["model"] == {**planned["job"]["model"], **config["model"]}
    for key, choice in config.get("in_force", {}).items():  # a solved head has no steps
        value = planned["steps"] if key == "steps" else planned["settings"][key]
        assert choice["value"] == value
    assert steps in (None, planned["steps"])


def test_tokens_of_text_are_estimated(world: World, here: Path) -> None:
    succeed(f"pretrain {world.texts} {SHAPE} --batch-tokens 64 --steps 1 -o run {MACHINE}")
    planned = figures(f"plan pretrain {world.texts} --preset tiny {SHAPE} --steps 6 --on h200")
    tokens = planned["steps"] * 32_768 / planned["passes"]
    assert tokens == pytest.approx(read(here / "run" / "data.json")["tokens"], rel=0.03)


def test_a_file_of_settings_is_planned(masked: Path) -> None:
    found = figures(f"plan pretrain --config {masked / 'config.json'} --on h200")
    assert found["settings"]["batch_tokens"] == 64
    assert found["steps"] == 6


def test_every_device_can_be_planned_for() -> None:
    kinds = {name: device.kind for name, device in known_devices().items()}
    assert set(kinds.values()) == set(DEVICES)
    assert all(kinds[name] == kind for kind, name in DEVICES.items())


def test_what_only_plan_takes_is_no_part_of_the_job() -> None:
    found = figures("plan pretrain --on h200")
    assert set(found["settings"]) == {
        s.key
        for s in PretrainConfig.declared()
        if s.recorded and s.name in {f.name for f in fields(PretrainConfig)}
    }
