"""Loss, gradients and labels of pairs do not depend on padding or batches, segments included."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from model_scores import class_probabilities
from shapes import TINY
from warmstart.batching.batches import pad_texts
from warmstart.model.models import Classifier
from warmstart.runtime import Runtime
from warmstart.tasks.classify import ClassifyObjective
from warmstart.tasks.vectors import TextBatches

SHAPE = replace(TINY, attention="bidirectional", segments=2, pooler=True)
EXACT = {"rtol": 0.0, "atol": 1e-10}
TEXTS = [
    [1, 5, 2, 6, 7, 2],
    [1, 8, 9, 10, 2, 11, 2],
    [1, 12, 2, 13, 14, 15, 16, 2],
    [1, 4, 2, 3, 2],
]
STARTS = [3, 5, 3, 3]
CLASSES = [0, 1, 1, 0]


@pytest.fixture(params=["cls", "mean", "last"])
def model(request: pytest.FixtureRequest, randomised: Callable[[Any], Any]) -> Classifier:
    return randomised(Classifier(SHAPE, 2, request.param))


@given(data=st.data())
def test_batches_and_padding_change_nothing(data: st.DataObject) -> None:
    torch.manual_seed(0)
    model = Classifier(SHAPE, 2, "mean").double()
    order = data.draw(st.permutations(range(4)))
    cut = data.draw(st.integers(1, 3))
    objective = ClassifyObjective(torch.tensor([1.0, 3.0]))
    results = []
    for parts in ([list(range(4))], [order[:cut], order[cut:]]):
        copy = deepcopy(model)
        batches = [pad_texts(TEXTS, CLASSES, rows, 0, STARTS) for rows in parts]
        total = sum(objective(copy, batch)["label"] for batch in batches)
        total.backward()
        results.append((total.detach(), [p.grad for p in copy.parameters() if p.grad is not None]))
    assert_close(results[0], results[1], **EXACT)


def test_a_pair_is_labelled_alike_alone_and_beside_others(model: Classifier, cpu: Runtime) -> None:
    together = class_probabilities(model, TEXTS, TextBatches(1000, 0, cpu), STARTS)
    for row in range(4):
        alone = class_probabilities(
            model, TEXTS[row : row + 1], TextBatches(8, 22, cpu), STARTS[row : row + 1]
        )
        assert abs(together[row] - alone[0]).max() < 1e-10


def test_segments_matter_where_a_model_has_them(model: Classifier, cpu: Runtime) -> None:
    told = class_probabilities(model, TEXTS, TextBatches(1000, 0, cpu), STARTS)
    untold = class_probabilities(model, TEXTS, TextBatches(1000, 0, cpu))
    assert abs(told - untold).max() > 1e-6


@pytest.mark.parametrize("segments", [0, 1])
def test_a_model_without_two_segments_does_not_look_at_them(segments: int, cpu: Runtime) -> None:
    model = Classifier(replace(SHAPE, segments=segments), 2, "mean")
    told = class_probabilities(model, TEXTS, TextBatches(1000, 0, cpu), STARTS)
    assert (told == class_probabilities(model, TEXTS, TextBatches(1000, 0, cpu))).all()
