"""The labs: their maths worked by the product, and their commands run as a student runs them."""

import contextlib
import io
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from command_line import ENVIRONMENT
from warmstart.decoding.beam import SpecialIds, beam_search
from warmstart.planning.plan import plan
from warmstart.settings.using import Beam

LABS = Path(__file__).parents[2] / "docs/labs"


def text_of(lab: str) -> str:
    return (LABS / f"{lab}.md").read_text()


def blocks(lab: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(lab), re.MULTILINE | re.DOTALL)


def test_the_scale_in_numbers() -> None:
    (block,) = blocks("translation", "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    for line in printed.getvalue().splitlines():
        assert f"| {' | '.join(line.split())} |" in text_of("translation")


@pytest.mark.parametrize(("width", "best", "probability"), [(1, "a", 0.20), (2, "b", 0.36)])
def test_the_beam_by_hand(width: int, best: str, probability: float) -> None:
    rows = re.findall(
        r"^\| (\(start\)|a|b) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        text_of("translation"),
        re.MULTILINE,
    )
    table = {name: [float(cell) for cell in cells] for name, *cells in rows}
    names = ["(start)", "a", "b"]  # token 0 begins, 1 and 2 are words, 3 ends

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        return torch.tensor([[0.0, *table[names[p[-1]]]] for p in prefixes.tolist()]).log()

    beam = Beam(beam=width, length_penalty=0.0)
    found = beam_search(step, [4], SpecialIds(0, 3, ()), beam)[0][0]
    assert [names[token] for token in found.ids] == [best]
    assert math.exp(found.score) == pytest.approx(probability)
    assert f"{probability:.2f}" in text_of("translation")


def test_a_beam_can_lose_what_greedy_finds() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (.+ \d.*) \|$", text_of("translation"), re.MULTILINE)
    shown = {name: dict(re.findall(r"([a-z.]) ([\d.]+)", cells)) for name, cells in rows}
    table = {"": shown["(start)"], **{name: shown[name] for name in ("a", "b", "ax")}}
    tokens = "_.abcxyz123456"  # the first begins, the second ends

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        return torch.tensor([next_tokens(prefix) for prefix in prefixes.tolist()]).log()

    def next_tokens(prefix: list[int]) -> list[float]:
        chances = table.get("".join(tokens[token] for token in prefix[1:]))
        if chances is None:  # ten tokens of 0.1 each, one of them the end
            return [0.1 if token in ".123456xyz" else 0.0 for token in tokens]
        return [float(chances.get(token, 0.0)) for token in tokens]

    def best(width: int) -> float:
        beam = Beam(beam=width, length_penalty=0.0)
        return math.exp(beam_search(step, [8], SpecialIds(0, 1, ()), beam)[0][0].score)

    assert best(1) == pytest.approx(0.16)
    assert best(2) <= 0.0175 + 1e-9
    assert "0.4 · 0.4 · 1.0 = 0.16" in text_of("translation")


@pytest.mark.parametrize(("device", "micro_tokens"), [("rtx-4090", None), ("rtx-4060", 16_384)])
def test_memory_is_what_plan_says(device: str, micro_tokens: int | None) -> None:
    sizes = {"batch_tokens": 50_000} | ({"micro_tokens": micro_tokens} if micro_tokens else {})
    planned = plan("vaswani-base", on=device, **sizes)
    memory = planned.memory
    assert f"{memory.peak / 2**20:,.0f} MiB" in text_of("translation")
    assert planned.fits
    if micro_tokens is None:
        parts = memory.weights, memory.gradients, memory.optimizer, memory.copies
        for part in (*parts, memory.activations, memory.loss):
            assert f" | {part / 2**20:,.0f} |" in text_of("translation")


def test_numbers_of_the_maths() -> None:
    text = text_of("transfer")
    assert f"{math.log(7.12):.3f} nats = {math.log2(7.12):.3f} bits" in text
    assert f"{math.log2(7.12) / 0.705:.2f} bytes" in text
    assert f"= {math.log2(20) / 4:.3f}" in text
    assert f"= {math.log2(60) / 6:.3f}" in text


@pytest.mark.docs
def test_every_command_of_the_labs_runs(tmp_path: Path) -> None:
    done: set[str] = set()
    for lab in ("transfer", "translation"):
        for block in blocks(lab, "sh"):
            for line in block.splitlines():
                if line.startswith("printf "):  # writes a file that the next command reads
                    subprocess.run(line, shell=True, cwd=tmp_path, check=True)
                if line.startswith("warmstart ") and line not in done:
                    done.add(line)
                    command = [sys.executable, "-m", *shlex.split(line)]
                    subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=True, timeout=600)
    assert len(done) >= 20
