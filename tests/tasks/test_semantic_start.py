"""Embeddings that start from which tokens occur together."""

import numpy as np
import pytest
import torch
from torch import Tensor

from warmstart.batching.packing import RunningText
from warmstart.tasks.semantic_start import RANK_SHARE, start_from_semantics

BOS, EOS, V, D = 0, 1, 42, 16
TOPICS = np.arange(2, V).reshape(2, -1)  # the tokens of two topics


def _text(num_documents: int = 120) -> RunningText:
    """Return documents of one topic each, of 3 to 20 tokens."""
    rng = np.random.default_rng(0)
    documents = [
        [BOS, *rng.choice(TOPICS[number % 2], rng.integers(3, 21)), EOS]
        for number in range(num_documents)
    ]
    return RunningText(np.concatenate(documents).astype(np.uint16), 32, BOS, EOS)


def _started(text: RunningText, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return an embedding before and after."""
    before = torch.randn(V, D, generator=torch.Generator().manual_seed(1)) * 0.02
    after = before.clone()
    start_from_semantics(after, text, seed)
    return before, after


def test_tokens_of_a_topic_start_alike() -> None:
    _, after = _started(_text())
    main = after[2:, 0]  # what distinguishes documents most is their topic
    assert (main[:20] > 0).all() != (main[20:] > 0).all()
    assert (main[:20].sign() == main[0].sign()).all()
    assert (main[20:].sign() == main[-1].sign()).all()


def test_the_other_dimensions_stay_random() -> None:
    before, after = _started(_text())
    rank = D // RANK_SHARE
    assert torch.equal(after[:, rank:], before[:, rank:])
    assert not torch.equal(after[:, :rank], before[:, :rank])
    assert after.isfinite().all()


def test_the_same_text_and_seed_give_the_same_start() -> None:
    assert torch.equal(_started(_text())[1], _started(_text())[1])


@pytest.mark.parametrize("ids", [[BOS, 5, EOS], [BOS, EOS] * 40, [BOS, 5, 6, EOS] * 40])
def test_text_without_structure_leaves_finite_embeddings(ids: list[int]) -> None:
    _, after = _started(RunningText(np.array(ids, np.uint16), 32, BOS, EOS))
    assert after.isfinite().all()
