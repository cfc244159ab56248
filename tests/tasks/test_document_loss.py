"""The loss of whole documents: what it is, and that no batching changes it."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim import SGD
from torch.testing import assert_close

from warmstart.batching.batches import MaskedBatch
from warmstart.batching.masking import Corruption
from warmstart.batching.packing import as_rows, pack
from warmstart.kernels.loss import IGNORE
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.masked import DocumentLoss, MaskedObjective, rarities
from warmstart.training.step import train_step

EXACT = {"rtol": 0.0, "atol": 1e-10}
BOS, EOS, MASK, V, T = 0, 2, 4, 23, 14
MASKING = Corruption(V, (0, 1, 2, 3), MASK, mask_rate=0.4, seed=0)
RARITIES = torch.linspace(0.5, 2.0, V, dtype=torch.float64)
STARTS = ((), (5,), (4, 9), (1,))  # where later documents begin in each row


def _batch(rows: Sequence[int]) -> MaskedBatch:
    """Return some of four rows, which contain one to three documents each."""
    ids = np.random.default_rng(0).integers(5, 11, (len(STARTS), T + 1))  # few kinds: some repeat
    for row, starts in enumerate(STARTS):
        for start in starts:
            ids[row, start - 1 : start + 1] = [EOS, BOS]
    chosen = as_rows(pack(torch.from_numpy(ids[list(rows)]), BOS, EOS))
    return MASKING.mask_tokens(chosen, np.array(rows))


def _by_hand(model: LanguageModel) -> Tensor:
    """Return the mean loss, each document read alone."""
    total, counted = torch.zeros((), dtype=torch.float64), 0.0
    for row, starts in enumerate(STARTS):
        batch = _batch([row])
        for start, end in zip((0, *starts), (*starts, T), strict=True):
            places = zip(batch.masked_positions[0].tolist(), batch.targets[0].tolist(), strict=True)
            masked = {t for place, t in places if start <= place < end and t != IGNORE}
            mean = model.backbone(batch.ids[:, start:end]).mean(1)  # (1, D)
            log_shares = model.head(mean, model.backbone.embed.weight)[0].log_softmax(-1)
            for token in masked:
                total = total - RARITIES[token] * log_shares[token]
                counted += float(RARITIES[token])
    return total / counted


GROUPINGS: dict[str, list[list[int]]] = {
    "together": [[0, 1, 2, 3]],
    "in parts": [[3, 1], [2, 0]],
    "one by one": [[0], [1], [2], [3]],
}


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("transform", [False, True])
def test_a_step_is_that_of_documents_read_alone(
    tiny: ModelConfig,
    randomised: Callable[[Any], Any],
    cpu: Runtime,
    grouping: str,
    transform: bool,
) -> None:
    shape = replace(tiny, attention="bidirectional", transform=transform, tied=transform)
    model: LanguageModel = randomised(LanguageModel(shape))
    group = [_batch(rows) for rows in GROUPINGS[grouping]]
    steps = [deepcopy(model), deepcopy(model)]
    losses = [
        train_step(moved, objective, group, {"sgd": SGD(moved.parameters(), lr=1.0)}, 1e9, cpu)[0]
        for moved, objective in zip(
            steps,
            (MaskedObjective(), MaskedObjective(DocumentLoss(0.7, RARITIES))),
            strict=True,
        )
    ]
    (0.7 * _by_hand(model)).backward()
    assert losses[1] == losses[0]  # what is reported is the loss of masked tokens
    parameters = (dict(m.named_parameters()) for m in (model, *steps))
    before, without, with_loss = parameters
    for name, parameter in before.items():
        assert parameter.grad is not None, name
        assert_close(with_loss[name], without[name] - parameter.grad, **EXACT)


def test_counts_of_parts_add_up() -> None:
    objective = MaskedObjective(DocumentLoss(1.0, RARITIES))
    counts = [
        objective.count([_batch(rows) for rows in grouping])["document"]
        for grouping in GROUPINGS.values()
    ]
    assert counts == pytest.approx([counts[0]] * len(counts), abs=1e-12)


def test_a_token_masked_twice_in_a_document_counts_once() -> None:
    batch = MaskedBatch(
        torch.full((1, 6), MASK),
        torch.tensor([[0, 1, 2, 3, 0]]),
        torch.tensor([[7, 7, 8, 7, IGNORE]]),
        None,
        None,
        torch.tensor([[0, 0, 0, 1, 1, 1]]),
        None,
        None,
    )
    expected = 2 * RARITIES[7] + RARITIES[8]  # 7 occurs in both documents
    assert DocumentLoss(1.0, RARITIES).count(batch) == pytest.approx(float(expected))


def test_rarer_tokens_count_more() -> None:
    found = rarities(np.array([0] * 16 + [1] + [2] * 81, np.uint16), vocab_size=4)
    assert found.tolist() == pytest.approx([0.5, 1.0, 1 / 3, 1.0])  # a token never seen is rare
