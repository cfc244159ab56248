"""`plan compare` plans what `compare` would run: the same settings, arms, subsets and cells."""

from pathlib import Path

import pytest

from command_line import MACHINE, World, figures, read, refuse, succeed
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import resolve

DEVICES = {"cpu": "laptop-cpu", "cuda": "h200"}
FILES = "--from {masked} --train {train} --valid {valid}"
SMALL = f"compare {FILES} --seeds 0,1 --trials 2 --epochs 1 --arms warm,frozen,tfidf {MACHINE}"
COMMANDS = {  # with the arms, subsets, cells and models that they train
    f"compare {FILES}": (5, 1, 5 * 5, 3 * (5 + 3) + 2 * (5 + 1)),
    f"compare {FILES} --test {{test}} --labels 10,20,all --trials 1": (5, 3, 75, 75),
    f"compare {FILES} --labels 20 --arms cold,warm --seeds 3,4 --trials 2": (2, 1, 4, 8),
    "compare --from {masked} --train {train} --folds 3 --arms frozen,tfidf": (2, 1, 30, 42),
    f"compare {FILES} --from {{base}}": (8, 1, 40, 58),
}


@pytest.fixture
def places(world: World, masked: Path, base: Path) -> dict[str, object]:
    return {**vars(world), "masked": masked, "base": base}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_compare_resolves_is_planned(
    command: str, device: str, places: dict[str, object]
) -> None:
    found = figures(f"plan {command} --on {DEVICES[device]}", **places)
    num_arms, num_subsets, num_cells, num_models = COMMANDS[command]
    assert (len(found["arms"]), len(found["subsets"])) == (num_arms, num_subsets)
    assert (found["cells"], found["models"]) == (num_cells, num_models)
    config = CompareConfig.from_values({**found["settings"], "out": "run"})
    assert resolve(config).recorded() == found["settings"]
    assert found["precision"] == ("bf16" if device == "cuda" else "fp32")
    timed = {arm["name"]: arm["seconds"] for arm in found["arms"] if arm["memory"]}
    cells_s, keeps_another = sum(timed.values()), resolve(config).retrains
    assert (found["time"]["total_s"] > cells_s * 1.0001) == keeps_another
    assert keeps_another or found["time"]["total_s"] == pytest.approx(cells_s)
    assert found["memory"]["peak"] == max(a["memory"]["peak"] for a in found["arms"] if a["memory"])


def test_a_comparison_is_what_was_planned(places: dict[str, object], here: Path) -> None:
    planned = figures(f"plan {SMALL} --labels 10,20 --no-measure -o run", **places)
    assert planned["time"]["total_s"] is None
    succeed(f"{SMALL} --labels 10,20 -o run", **places)
    results = read(here / "run" / "results.json")
    assert [arm["name"] for arm in results["arms"]] == [arm["name"] for arm in planned["arms"]]
    assert results["subsets"] == planned["subsets"]
    assert len(results["cells"]) == planned["cells"]
    assert len(list((here / "run" / "cells").glob("*-tuning.json"))) == 2 * len(planned["arms"])
    assert read(here / "run" / "config.json")["settings"] == planned["settings"]


def test_the_arms_are_measured_here(places: dict[str, object], here: Path) -> None:
    found = figures(f"plan {SMALL} --seconds 0.3", **places)
    assert all(arm["seconds"] > 0 for arm in found["arms"])
    assert found["time"]["total_s"] == pytest.approx(sum(arm["seconds"] for arm in found["arms"]))
    assert list(here.iterdir()) == []


def test_a_frozen_arm_takes_less(places: dict[str, object]) -> None:
    arms = figures(f"plan compare {FILES} --on laptop-cpu", **places)["arms"]
    warm, frozen, cold = arms[:3]
    assert frozen["memory"]["optimizer"] < warm["memory"]["optimizer"]
    assert frozen["seconds"] < warm["seconds"] == cold["seconds"]


def test_what_fits_into_the_minutes_is_planned(places: dict[str, object]) -> None:
    seeds = ",".join(map(str, range(40)))
    command = f"plan compare {FILES} --on laptop-cpu --seeds {seeds} --trials 9 --batch-size 1"
    whole = figures(command, **places)
    minutes = (10 + 0.7 * whole["time"]["total_s"]) / 60
    part = figures(f"{command} --minutes {minutes}", **places)
    assert 0 < part["time"]["total_s"] <= 60 * minutes - 10
    assert part["models"] < whole["models"]
    assert any(line.startswith("--minutes") for line in part["sentences"])
    assert "--minutes 0.01 is too short" in refuse(
        f"plan {SMALL} --on laptop-cpu --minutes 0.01", **places
    )


def test_the_table_has_a_row_for_each_arm(places: dict[str, object]) -> None:
    said = succeed(f"plan {SMALL} --on h200 --processes 4", **places).out
    assert all(f"\n {name}" in said or f"│ {name}" in said for name in ("warm", "frozen", "tf-idf"))
    assert "3 arms × 1 label subset × 2 seeds: 6 cells, and 5 models to tune" in said
    assert "tf-idf runs on the CPU beside it and is not counted" in said
    assert "--processes is not counted" in said
