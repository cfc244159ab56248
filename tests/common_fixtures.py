"""Small shapes for every test, and one thread, so that no result depends on the machine."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import nn

from command_line import base, here, masked, warm, world
from http_server import server
from hub_folders import saved
from shapes import TINY, small_tokenizer
from toy_pairs import beginner, toy, translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.tokenizer import Tokenizer

__all__ = [  # fixtures, here so that each is made once for all tests of a process
    "base",
    "beginner",
    "here",
    "masked",
    "saved",
    "server",
    "toy",
    "translator",
    "warm",
    "world",
]

torch.set_num_threads(1)
settings.register_profile("steady", deadline=None)  # the first example pays for warming up
settings.load_profile("steady")

CHOICES: dict[str, tuple[Any, ...]] = {
    "norm": ("layer", "rms"),
    "norm_position": ("post", "pre"),
    "positions": ("sinusoidal", "learned", "rope"),
    "activation": ("relu", "gelu", "swiglu", "relu2"),
    "tied": (False, True),
    "biases": (True, False),
}


def _shapes(*names: str) -> list[Any]:
    combinations = product(*(CHOICES[name] for name in names))
    return [
        pytest.param(
            replace(TINY, **dict(zip(names, words, strict=True))),
            id="-".join(
                f"{'' if word else 'un'}{name}" if isinstance(word, bool) else str(word)
                for name, word in zip(names, words, strict=True)
            ),
        )
        for words in combinations
    ]


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> ModelConfig:
    """Return the shape that tests change words of."""
    return TINY


@pytest.fixture(params=_shapes(*CHOICES))
def any_shape(request: pytest.FixtureRequest) -> ModelConfig:
    """Return every combination of config words in turn."""
    return request.param


@pytest.fixture(params=_shapes("norm", "norm_position", "positions"))
def some_shape(request: pytest.FixtureRequest) -> ModelConfig:
    """Return every combination of the words that shape the path through a block."""
    return request.param


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Return a tokenizer that knows a few words and splits the others."""
    return small_tokenizer()


@pytest.fixture(scope="session")
def cpu() -> Runtime:
    return Runtime(torch.device("cpu"))


@pytest.fixture(scope="session")
def randomised() -> Callable[[Any], Any]:
    """Return a function that leaves no parameter at zero or one, and computes in float64."""

    def randomise(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.normal_(std=0.4)
        return module.double()

    return randomise


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Return a Ray cluster of one machine with one core, to which a test can add others."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return Chromium, driven by playwright; skip where one of them is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
