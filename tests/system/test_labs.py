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
from lab_pages import PAGES, Expectation, blocks, commands, expectations, text_of, visible_text
from torch import Tensor

from command_line import ENVIRONMENT
from warmstart.decoding.beam import SpecialIds, beam_search
from warmstart.planning.plan import plan
from warmstart.settings.using import Beam


def test_the_scale_in_numbers() -> None:
    (block,) = blocks("attention", "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    for line in printed.getvalue().splitlines():
        assert f"| {' | '.join(line.split())} |" in text_of("attention")


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
    assert f"{memory.peak / 2**20:,.0f} MiB" in text_of("cost")
    assert planned.fits
    if micro_tokens is None:
        parts = memory.weights, memory.gradients, memory.optimizer, memory.copies
        for part in (*parts, memory.activations, memory.loss):
            assert f" | {part / 2**20:,.0f} |" in text_of("cost")


def test_numbers_of_the_maths() -> None:
    text = text_of("transfer")
    (perplexity, bits) = map(
        float, re.findall(r"perplexity ([\d.]+), ([\d.]+) bits per byte", text)[0]
    )
    assert f"{math.log(perplexity):.3f} nats = {math.log2(perplexity):.3f} bits" in text
    assert f"{math.log2(perplexity) / bits:.2f} bytes" in text
    assert f"= {math.log2(20) / 4:.3f}" in text
    assert f"= {math.log2(60) / 6:.3f}" in text


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_expects_is_what_it_says(page: str) -> None:
    expected = list(expectations(page))
    assert expected
    text = visible_text(page)
    for number in {number for expectation in expected for number in expectation.quoted}:
        assert number.lstrip("+-−") in text, f"{page}.md expects {number} and does not say it"


def test_a_number_is_compared_within_its_tolerance() -> None:
    expected = Expectation("warmstart …", "warm 78.8 ± 1.5% beats cold by −1.0 ± 0.5 of 5")
    assert expected.quoted == ["78.8", "−1.0"]
    assert not expected.problem("first\nwarm │ 80.3%\nbeats cold by -1.2 of 5 seeds")
    assert "printed 80.4" in expected.problem("warm 80.4% beats cold by -1.2 of 5")
    assert "printed 1.0" in expected.problem("warm 79% beats cold by 1.0 of 5")
    assert "did not print" in expected.problem("warm 78.8% beats cold by -1.0 of 6")


@pytest.mark.docs
def test_every_command_of_the_labs_prints_what_the_page_says(tmp_path: Path) -> None:
    printed: dict[str, str] = {}
    for page in PAGES:
        for line in commands(page):
            if line.startswith("printf "):  # writes a file that the next command reads
                subprocess.run(line, shell=True, cwd=tmp_path, check=True)
            if line.startswith("warmstart ") and line not in printed:
                printed[line] = run(line, tmp_path)
    assert len(printed) >= 20
    expected = [expectation for page in PAGES for expectation in expectations(page)]
    problems = [expectation.problem(printed[expectation.command]) for expectation in expected]
    assert not list(filter(None, problems))


def run(line: str, folder: Path) -> str:
    """Run a command and return what it printed, in lines wide enough for every table."""
    command = [sys.executable, "-m", *shlex.split(line)]
    wide = {**ENVIRONMENT, "COLUMNS": "200"}
    ran = subprocess.run(
        command, cwd=folder, env=wide, check=True, timeout=900, stdout=subprocess.PIPE, text=True
    )
    return ran.stdout
