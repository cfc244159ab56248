"""Positions: likeness against distance, and perplexity by position past the trained length."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_runs import SHAPE

from warmstart.errors import WarmstartError
from warmstart.interop.ctranslate2_write import refuse_unknown
from warmstart.look.positions import (
    MIN_WINDOWS,
    cut_windows,
    longest_length,
    perplexity_by_position,
    view_positions,
)
from warmstart.model.attention import apply_rope, frequencies, rope_cos_sin
from warmstart.model.backbone import Backbone
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig


class UncheckedConfig(ModelConfig):
    """A config that accepts any value, as one with a new kind of positions would."""

    def __post_init__(self) -> None: ...


def test_sinusoids_depend_on_distance_alone() -> None:
    view = view_positions(SHAPE, None, "toy", 64)
    speeds = frequencies(SHAPE.width // 2, torch.device("cpu")).numpy()
    expected = np.cos(view.similarity.distances[:, None] * speeds).mean(1)
    for found in (view.similarity.mean, view.similarity.low, view.similarity.high):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    for start, values in view.similarity.by_start.items():
        np.testing.assert_allclose(values, expected[: 64 - start], atol=1e-12)
    assert len(view.similarity.by_start) == 3
    assert view.vectors.shape == (64, SHAPE.width)
    (image,) = view.draw().axes[0].get_images()
    drawn = np.asarray(image.get_array())
    np.testing.assert_array_equal(drawn[:, : SHAPE.width // 2], view.vectors[:, 0::2])  # sines
    np.testing.assert_array_equal(drawn[0, SHAPE.width // 2 :], 1)  # cosines, at position 0
    labels = view.draw().axes[1].get_legend_handles_labels()[1]
    assert labels == ["mean over all positions", *(f"from position {p}" for p in (0, 16, 32))]


def test_an_unknown_encoding_is_refused() -> None:
    shape = UncheckedConfig(**asdict(SHAPE) | {"positions": "alibi"})
    with pytest.raises(WarmstartError, match="no picture of alibi positions"):
        view_positions(shape, None, "toy", 12)
    with pytest.raises(WarmstartError, match="does not implement positions=alibi"):
        refuse_unknown(shape)


def test_rotary_scores_are_those_of_the_model() -> None:
    shape = replace(SHAPE, positions="rope")
    view = view_positions(shape, None, "toy", 12)
    K = shape.width // shape.heads
    q = torch.randn(4000, 1, 1, K).expand(-1, 1, 12, K)
    turned = apply_rope(q, rope_cos_sin(torch.arange(12)[None], K))  # (N, 1, T, K)
    scores = (turned[:, :, :1] * turned).sum(-1).mean((0, 1)) / K
    np.testing.assert_allclose(view.similarity.mean, scores.numpy(), atol=0.05)


def test_learned_positions_come_from_the_weights() -> None:
    shape = replace(SHAPE, positions="learned")
    backbone = Backbone(shape)
    view = view_positions(shape, backbone, "toy", 999)
    np.testing.assert_allclose(view.vectors, backbone.embed_positions.weight.detach().numpy())
    assert view.similarity.mean[0] == pytest.approx(1)
    assert "Not trained" in view_positions(shape, None, "toy", 20).note


def test_whole_windows_are_preferred() -> None:
    long, short = [list(range(11))] * MIN_WINDOWS, [[1, 2, 3]]
    windows, note = cut_windows([*long, *short], 10)
    assert windows == long
    assert "the same windows" in note
    windows, note = cut_windows([*long[:2], *short, [7]], 10)
    assert windows == [*long[:2], *short]
    assert "only 2 windows" in note
    with pytest.raises(WarmstartError, match="no text of two or more tokens"):
        cut_windows([[1]], 10)


def test_learned_positions_stop_at_the_trained_length() -> None:
    assert longest_length(replace(SHAPE, positions="learned"), 3.0)[0] == SHAPE.max_length
    assert (
        "no vector for position 40" in longest_length(replace(SHAPE, positions="learned"), 3.0)[1]
    )
    assert longest_length(SHAPE, 3.0) == (3 * SHAPE.max_length, "")


@pytest.mark.parametrize("positions", ["sinusoidal", "rope"])
def test_perplexity_goes_on_past_the_trained_length(positions: str, cpu: Runtime) -> None:
    shape = replace(SHAPE, positions=positions, max_length=8, vocab_size=23)
    model = LanguageModel(shape).eval()
    windows = torch.randint(0, 23, (12, 25)).tolist()
    curve = perplexity_by_position(model, windows, 24, cpu)
    assert curve.trained_length == 8
    assert curve.positions.tolist() == list(range(24))
    assert curve.tokens.tolist() == [12] * 24
    wide = LanguageModel(replace(shape, max_length=24)).eval()
    wide.load_state_dict(model.state_dict())
    ids = torch.tensor(windows)
    with torch.inference_mode():
        logits = wide(ids[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    expected = losses.view(12, 24).double().mean(0).exp()
    np.testing.assert_allclose(curve.perplexity, expected.numpy(), rtol=1e-5)
    assert (curve.low <= curve.perplexity).all()
    assert (curve.perplexity <= curve.high).all()


def test_short_windows_leave_late_positions_out(cpu: Runtime) -> None:
    model = LanguageModel(replace(SHAPE, vocab_size=23)).eval()
    curve = perplexity_by_position(model, [[1, 2, 3, 4], [5, 6, 7]], 40, cpu)
    assert curve.tokens.tolist() == [2, 2] or curve.tokens.sum() == 5
    view = replace(view_positions(SHAPE, None, "toy", 20), curve=curve)
    assert len(view.draw().axes) == 4  # three pictures and a scale
