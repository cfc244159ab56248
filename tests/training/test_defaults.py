"""The defaults of training follow the model and the size of the data."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.settings.model import PRESETS, Positions
from warmstart.settings.training import Tuning
from warmstart.training.defaults import (
    epochs_between_validations,
    finetuning_epochs,
    finetuning_length,
    finetuning_rate,
    translation_consistency,
    translation_epochs,
)


@pytest.mark.parametrize(
    ("positions", "pretrained", "expected"),
    [
        ("rope", 256, 512),
        ("rope", 100, 200),
        ("rope", 400, 512),
        ("rope", 512, 512),
        ("rope", 2048, 2048),
        ("sinusoidal", 256, 256),
        ("learned", 256, 256),
    ],
)
def test_only_rotary_positions_reach_beyond_what_was_pretrained(
    positions: Positions, pretrained: int, expected: int
) -> None:
    is_scaled = positions == "sinusoidal"
    model = replace(PRESETS["mini"], positions=positions, scale_embedding=is_scaled)
    model = replace(model, max_length=pretrained)
    assert finetuning_length(model) == expected


@given(st.integers(2, 10**6), st.integers(1, 10**6))
def test_more_texts_never_mean_more_epochs(num_texts: int, more: int) -> None:
    few, many = (finetuning_epochs(num, Tuning()) for num in (num_texts, num_texts + more))
    assert 3 <= many <= few <= 40
    assert many * (num_texts + more) >= few * num_texts * 0.75  # 4 epochs become 3
    assert finetuning_epochs(num_texts, Tuning(epochs=7)) == 7


def test_wider_models_and_post_norm_ones_get_lower_rates() -> None:
    narrow = PRESETS["modern-small"]
    wide = replace(narrow, width=2 * narrow.width)
    post = replace(narrow, norm_position="post")
    assert finetuning_rate(wide, "warm") < finetuning_rate(narrow, "warm")
    assert finetuning_rate(post, "cold") < finetuning_rate(narrow, "cold")
    assert finetuning_rate(narrow, "warm") < finetuning_rate(narrow, "cold")


@given(st.integers(1, 1000))
def test_a_short_training_is_validated_every_epoch_and_a_long_one_not_too_often(num: int) -> None:
    last, best = (
        -(-num // epochs_between_validations(num, Tuning(keep_epoch=keep)))
        for keep in ("last", "best")
    )
    assert last == best == num if num <= 20 else 6 <= last <= 10 < best <= 20


def test_fewer_pairs_are_read_more_often() -> None:
    epochs = [translation_epochs(pairs) for pairs in (10, 1_000, 30_000, 600_000, 10**8)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[2] == 32
    assert (epochs[0], epochs[-1]) == (200, 5)


def test_consistency_needs_dropout_and_few_pairs() -> None:
    model = PRESETS["translator-small"]
    assert translation_consistency(30_000, model) == 5.0
    assert translation_consistency(600_000, model) == 0.0
    assert translation_consistency(30_000, replace(model, dropout=0.0)) == 0.0
