from pathlib import Path
from typing import Any

from product import MACHINE, World, succeed


def figures(command: str, **places: object) -> Any:
    return succeed(f"{command} --json", **places).json


def test_models_are_planned_as_their_command_builds_them(
    world: World, base: Path, here: Path
) -> None:
    tiny = figures("plan tiny --objective translate --on h200")["job"]["model"]
    assert tiny["decoder_depth"] == tiny["depth"]
    words = "--vocab-size 300 --max-length 32"
    masked = f"pretrain {world.texts} -o masked --objective masked --preset tiny {words}"
    succeed(f"{masked} --steps 1 --batch-tokens 64 {MACHINE}")
    planned = figures(f"plan tiny --objective masked --on h200 {words}")["parameters"]
    assert planned == figures("params masked")["total"]
    step = next((base / "checkpoints").iterdir())
    at_step = figures("plan {run} --on h200", run=step)
    assert at_step["parameters"] == figures("plan {run} --on h200", run=base)["parameters"]
