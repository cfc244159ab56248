"""A stopped run whose files were changed is refused with a sentence, and trained no further."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import TINY, World, run, stop_at


def _longer(config: Any) -> None:
    config["lengths"][-1]["steps"] = 65_536


def _without_length(config: Any) -> None:
    del config["lengths"]


def _without_task(config: Any) -> None:
    del config["task"]


def _shorter_than_a_text(config: Any) -> None:
    config["model"]["max_length"] = 1


def _larger_id(tokenizer: Any) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[next(reversed(vocabulary))] = 65_536


@pytest.mark.parametrize(
    ("file", "tamper", "said"),
    [
        ("config.json", _longer, "65,536 steps in 'lengths' and 6 in 'settings'"),
        ("config.json", _without_length, "has no 'lengths', though the run has taken 3 steps"),
        ("config.json", _without_task, "has no 'task'"),
        ("config.json", _shorter_than_a_text, "model.max_length=1 must be at least 3"),
        ("tokenizer.json", _larger_id, "tokenizer has 65,537 entries"),
    ],
)
def test_a_changed_file_is_named(
    file: str, tamper: Callable[[Any], None], said: str, world: World, here: Path
) -> None:
    command = f"pretrain {world.texts} -o run {TINY} --save-every 2"
    stop_at(3, command)
    path = here / "run" / file
    content = json.loads(path.read_text(encoding="utf-8"))
    tamper(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    ran = run(f"{command} --resume")
    assert ran.code == 2, ran
    assert said in ran.said
