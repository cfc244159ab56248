"""Defaults are decided once: what a command says and records is what `resolve` returns."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, QUICK, SHAPE, World, read, succeed
from toy_pairs import FILES, SHORT, Toy
from warmstart.recipes import finetune, pretrain, train_translator
from warmstart.runs.saved import read_run
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig

STEPS = f"--batch-tokens 64 --steps 2 {MACHINE}"
OPEN = "--preset tiny --vocab-size 300 --steps 1 --batch-tokens 64 --max-length 16"
BY_DATA = ("steps", "consistency")
LABELLED = "--train {train} --valid {valid}"


@dataclass(frozen=True)
class Case:
    """A command line, and the recipe that it runs."""

    command: str
    recipe: Any
    settings: Any


CASES = [
    Case(f"pretrain {{texts}} {SHAPE} {STEPS}", pretrain, PretrainConfig),
    Case(f"pretrain {{texts}} --objective causal {SHAPE} {STEPS}", pretrain, PretrainConfig),
    Case(f"pretrain {{texts}} {OPEN} --norm-position post {MACHINE}", pretrain, PretrainConfig),
    Case(f"pretrain {{texts}} --from {{masked}} {STEPS}", pretrain, PretrainConfig),
    Case(f"finetune {LABELLED} {SHAPE} {QUICK}", finetune, FinetuneConfig),
    Case(f"finetune {LABELLED} --from {{masked}} {QUICK}", finetune, FinetuneConfig),
    Case(f"train-translator {FILES} {SHORT}", train_translator, TrainTranslatorConfig),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command)
def test_settings_are_said_and_recorded_as_resolved(
    case: Case, world: World, toy: Toy, masked: Path, here: Path
) -> None:
    places = {**vars(world), **vars(toy), "masked": masked}
    ran = succeed(f"{case.command} -o run", **places)
    config = read(here / "run" / "config.json")
    given = case.settings.from_values({**config["settings"], "out": "run"})
    parent = read_run(given.from_run) if given.from_run else None
    resolved = case.recipe.resolve(given, None, parent, "cpu")
    line = next(line for line in ran.err.splitlines() if line.startswith("settings: "))
    assert {"learning_rate", "max_length", "steps"} <= set(config["in_force"])
    for key, choice in config["in_force"].items():
        if key not in BY_DATA:
            assert choice["value"] == getattr(resolved, key)
        shown = f"{choice['value']:,}" if isinstance(choice["value"], int) else None
        assert f"{key.replace('_', ' ')} {shown or format(choice['value'], '.3g')} (" in line
    assert resolved.max_length == config["model"]["max_length"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("recipe", "settings", "given", "keys"),
    [
        (pretrain, PretrainConfig, {"files": "a"}, ("preset", "minutes", "batch_tokens")),
        (finetune, FinetuneConfig, {"train": "a", "task": "classify"}, ("preset",)),
        (train_translator, TrainTranslatorConfig, {"train": "a", "valid": "b"}, ("preset",)),
    ],
)
def test_the_help_names_the_defaults_of_each_device(
    recipe: Any, settings: Any, given: dict[str, str], keys: tuple[str, ...], device: str
) -> None:
    resolved = recipe.resolve(settings.from_values({**given, "out": "run"}), None, None, device)
    helps = {setting.key: setting.help.partition("default:")[2] for setting in settings.declared()}
    for key in keys:
        value = getattr(resolved, key)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert shown in helps[key], key


def test_a_resumed_run_keeps_its_batches_on_another_device(masked: Path) -> None:
    run = read_run(masked)
    values = {**run.settings, "out": str(masked), "batch_tokens": None}
    given = PretrainConfig.from_values(values)
    assert pretrain.resolve(given, run.folder, None, "cuda").batch_tokens == 64
    assert pretrain.resolve(given, None, None, "cuda").batch_tokens > 64


@pytest.mark.parametrize("recipe", [pretrain, finetune, train_translator])
def test_every_training_command_resolves_alike(recipe: Any) -> None:
    assert list(inspect.signature(recipe.resolve).parameters) == [
        *("config", "run", "parent", "device")
    ]
