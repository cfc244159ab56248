"""Masked tokens and next sentences: the losses, and that no batching changes them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD
from torch.testing import assert_close

from warmstart.batching.batches import MaskedBatch, Rows
from warmstart.batching.masking import Corruption
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.masked import MaskedObjective, score_masked
from warmstart.training.step import train_step

EXACT = {"rtol": 0.0, "atol": 1e-10}
BOS, PAD, EOS, MASK = 0, 1, 2, 4
HIDE = Corruption(23, (0, 1, 2, 3), MASK, mask_rate=0.3, seed=0)
SIZES = [(5, 4), (2, 3), (7, 1), (1, 7), (4, 4)]  # tokens of the two segments


def _pairs(extra: int = 0) -> Rows:
    """Return rows bos A eos B eos, padded to the longest and `extra` more."""
    rng = np.random.default_rng(0)
    T = max(a + b + 3 for a, b in SIZES)
    ids = np.full((len(SIZES), T + extra), PAD)
    segments = np.zeros_like(ids)
    for row, (a, b) in enumerate(SIZES):
        tokens = rng.integers(5, 23, a + b)
        ids[row, : a + b + 3] = [BOS, *tokens[:a], EOS, *tokens[a:], EOS]
        segments[row, a + 2 : a + b + 3] = 1
    return Rows(ids, ids != PAD, segments=segments, classes=np.array([0, 1, 1, 0, 0]))


def _batch(rows: Sequence[int], extra: int = 0, spare: int = 0) -> MaskedBatch:
    """Return some of the pairs with the tokens hidden that are hidden without padding."""
    hidden = HIDE.mask_tokens(_pairs(), np.arange(len(SIZES)))
    wide = _pairs(extra)
    ids = torch.from_numpy(wide.ids)
    ids[:, : hidden.ids.shape[1]] = hidden.ids
    assert wide.is_token is not None
    assert wide.segments is not None
    chosen = list(rows)
    return MaskedBatch(
        ids[chosen],
        F.pad(hidden.masked_positions, (0, spare))[chosen],
        F.pad(hidden.targets, (0, spare), value=IGNORE)[chosen],
        torch.from_numpy(np.array([0, 1, 1, 0, 0]))[chosen],
        torch.from_numpy(wide.is_token)[chosen],
        None,
        None,
        torch.from_numpy(wide.segments)[chosen],
    )


GROUPINGS: dict[str, Callable[[], list[MaskedBatch]]] = {
    "together": lambda: [_batch(range(5))],
    "more padding": lambda: [_batch(range(5), extra=6)],
    "unused places": lambda: [_batch(range(5), spare=3)],
    "in parts": lambda: [_batch([4, 0]), _batch([2]), _batch([1, 3], extra=2, spare=1)],
    "one by one": lambda: [_batch([row]) for row in range(5)],
}


def _shape(tiny: ModelConfig, **words: Any) -> ModelConfig:
    return replace(tiny, attention="bidirectional", segments=2, pooler=True, **words)


def _by_hand(model: LanguageModel) -> dict[str, Tensor]:
    """Return both mean losses from full logits, each row read alone and without padding."""
    batch = _batch(range(5))
    assert batch.classes is not None
    assert batch.segments is not None
    mlm, nsp, count = torch.zeros((), dtype=torch.float64), torch.zeros(()).double(), 0
    for row, (a, b) in enumerate(SIZES):
        size = a + b + 3
        ids, layout = (
            batch.ids[row : row + 1, :size],
            Layout(segments=batch.segments[row, None, :size]),
        )
        logits = model(ids, layout)[0]
        for place, target in zip(batch.masked_positions[row], batch.targets[row], strict=True):
            if target != IGNORE:
                mlm = mlm - logits[place].log_softmax(-1)[target]
                count += 1
        first = torch.tanh(model.backbone.pooler(model.backbone(ids, layout)[:, 0]))
        nsp = nsp - model.next_sentence(first).log_softmax(-1)[0, batch.classes[row]]
    return {"mlm": mlm / count, "nsp": nsp / len(SIZES)}


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("transform", [False, True])
def test_steps_do_not_depend_on_the_batch(
    tiny: ModelConfig,
    randomised: Callable[[Any], Any],
    cpu: Runtime,
    grouping: str,
    transform: bool,
) -> None:
    shape = _shape(tiny, transform=transform, tied=transform)
    model: LanguageModel = randomised(LanguageModel(shape, has_next_sentence=True))
    group = GROUPINGS[grouping]()
    counts = MaskedObjective().count(group)
    assert counts["nsp"] == 5
    assert counts["mlm"] == sum(int((batch.targets != IGNORE).sum()) for batch in group)
    moved = deepcopy(model)
    loss, _ = train_step(
        moved, MaskedObjective(), group, {"sgd": SGD(moved.parameters(), lr=1.0)}, 1e9, cpu
    )
    expected = sum(_by_hand(model).values(), torch.zeros(()))
    expected.backward()
    assert_close(loss, expected.detach().double(), **EXACT)
    for (name, parameter), after in zip(model.named_parameters(), moved.parameters(), strict=True):
        assert parameter.grad is not None, name
        assert_close(after.detach(), (parameter - parameter.grad).detach(), **EXACT)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_scores_do_not_depend_on_the_batch(
    tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime, grouping: str
) -> None:
    model: LanguageModel = randomised(LanguageModel(_shape(tiny), has_next_sentence=True)).eval()
    found = score_masked(model, GROUPINGS[grouping](), cpu)
    expected = {name: float(loss.detach()) for name, loss in _by_hand(model).items()}
    figures = found.figures()
    assert figures["mlm_loss"] == pytest.approx(expected["mlm"], abs=1e-10)
    assert figures["nsp_loss"] == pytest.approx(expected["nsp"], abs=1e-10)
    assert figures["loss"] == pytest.approx(sum(expected.values()), abs=1e-10)
    assert figures["pseudo_perplexity"] == pytest.approx(np.exp(expected["mlm"]))
    order = [4, 0, 2, 1, 3] if grouping == "in parts" else range(5)
    whole = score_masked(model, GROUPINGS["together"](), cpu)
    for mine, theirs in ((found.right, whole.right), (found.pair_right, whole.pair_right)):
        assert mine.tolist() == theirs[list(order)].tolist()


def test_without_pairs_there_is_one_loss(
    tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime
) -> None:
    shape = replace(tiny, attention="bidirectional")
    model: LanguageModel = randomised(LanguageModel(shape))
    rows = Rows(np.random.default_rng(1).integers(5, 23, (3, 12)))
    batch = HIDE.mask_tokens(rows, np.arange(3))
    assert MaskedObjective().count([batch]) == {"mlm": 12, "nsp": 0}
    assert set(MaskedObjective()(model, batch)) == {"mlm"}
    figures = score_masked(model.eval(), [batch], cpu).figures()
    assert set(figures) == {"loss", "mlm_loss", "mlm_accuracy", "pseudo_perplexity"}
    logits = model(batch.ids).gather(1, batch.masked_positions[..., None].expand(-1, -1, 23))
    expected = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    assert figures["loss"] == pytest.approx(float(expected.detach()), abs=1e-10)


def test_only_hidden_places_go_through_the_head(tiny: ModelConfig) -> None:
    model = LanguageModel(_shape(tiny, transform=True), has_next_sentence=True)
    shapes: list[torch.Size] = []
    model.head.transform.register_forward_hook(lambda _, args, __: shapes.append(args[0].shape))
    batch = _batch(range(5))
    MaskedObjective()(model, batch)
    assert shapes == [(5, batch.masked_positions.shape[1], tiny.width)]
    assert batch.masked_positions.shape[1] < batch.ids.shape[1] / 2


def test_intervals_hold_their_figures(tiny: ModelConfig, cpu: Runtime) -> None:
    model = LanguageModel(_shape(tiny), has_next_sentence=True).eval()
    found = score_masked(model, [_batch(range(5))], cpu)
    figures, intervals = found.figures(), found.intervals()
    assert set(intervals) == {"mlm_accuracy", "pseudo_perplexity", "nsp_accuracy"}
    for name, one in intervals.items():
        assert one.low <= one.mean == figures[name] <= one.high
