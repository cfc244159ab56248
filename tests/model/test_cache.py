from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from warmstart.model.attention import KeyValueCache
from warmstart.model.models import LanguageModel
from warmstart.settings.model import ModelConfig

EXACT = {"rtol": 0.0, "atol": 1e-10}


@pytest.mark.parametrize("pieces", [[1] * 9, [9], [4, 5], [3, 1, 1, 4], [1, 8]], ids=str)
def test_cached_equals_uncached(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], pieces: list[int]
) -> None:
    model: LanguageModel = randomised(LanguageModel(some_shape)).eval()
    ids = torch.randint(23, (3, 9))
    cache = KeyValueCache(some_shape.depth)
    assert cache.length == 0
    parts = [model(piece, cache=cache) for piece in ids.split(pieces, 1)]
    assert_close(torch.cat(parts, 1), model(ids), **EXACT)
    assert cache.length == 9


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rope"])
def test_selected_rows_continue_their_parents(
    tiny: ModelConfig, randomised: Callable[[Any], Any], positions: Any
) -> None:
    model: LanguageModel = randomised(LanguageModel(replace(tiny, positions=positions))).eval()
    ids, more = torch.randint(23, (3, 5)), torch.randint(23, (4, 2))
    parents = torch.tensor([2, 0, 2, 2])
    cache = KeyValueCache(tiny.depth)
    model(ids, cache=cache)
    cache.select(parents)
    whole = model(torch.cat([ids[parents], more], 1))
    assert_close(model(more, cache=cache), whole[:, 5:], **EXACT)


def test_selecting_from_an_empty_cache_does_nothing() -> None:
    cache = KeyValueCache(2)
    cache.select(torch.tensor([0]))
    assert cache.length == 0
