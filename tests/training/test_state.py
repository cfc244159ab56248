"""What a checkpoint says of its run is believed only where it fits together."""

from dataclasses import replace
from typing import Any

import pytest

from warmstart.errors import WarmstartError
from warmstart.training.step import State

WHOLE = State(
    step=6,
    best_score=-1.0,
    best_step=4,
    loss_steps=2,
    evaluations=[{"step": 2, "valid_loss": 2.0}, {"step": 4, "valid_loss": 1.0}],
)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 5},
        {"best_step": 3},
        {"loss_steps": -1},
        {"num_parts": -1},
        {"num_parts": 1 << 40},
        {"evaluations": []},
        {"evaluations": [{"valid_loss": 1.0}, {"step": 4}]},
    ],
)
def test_a_state_that_cannot_be_that_of_its_step(changes: dict[str, Any]) -> None:
    assert WHOLE.fits(6)
    assert State().fits(0)
    assert not replace(WHOLE, **changes).fits(6)


def test_the_best_scores_are_named_or_missed() -> None:
    scores = WHOLE.best_scores()
    assert scores == {"loss": 1.0}
    with pytest.raises(WarmstartError, match="has no 'bleu'"):
        scores["bleu"]
    with pytest.raises(WarmstartError, match="no validation of step 3, the best"):
        replace(WHOLE, best_step=3).best_scores()
