import math
from dataclasses import replace

import pytest
import torch

from warmstart.errors import WarmstartError
from warmstart.model.attention import rope_cos_sin, sinusoids
from warmstart.model.models import LanguageModel
from warmstart.settings.model import PRESETS, ArchitectureOverrides, apply_overrides

CPU = torch.device("cpu")


@pytest.mark.parametrize("width", [2, 16, 200])
def test_sinusoids_are_the_papers(width: int) -> None:
    table = sinusoids(50, width, CPU)
    assert table.shape == (50, width)
    for position in range(50):
        for i in range(width // 2):
            angle = position / 10_000 ** (2 * i / width)
            assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-12)
            assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-12)


def test_sinusoid_similarity_depends_on_distance_alone() -> None:
    table = sinusoids(40, 32, CPU)
    products = table @ table.T
    for distance in range(40):
        along = products.diagonal(distance)
        assert float(along.max() - along.min()) < 1e-10


@pytest.mark.parametrize("preset", ["lab", "bert-base", "modern-small", "tiny"])
def test_sinusoids_do_not_drown_the_words(preset: str) -> None:
    small = ArchitectureOverrides(positions="sinusoidal", depth=1, width=48, heads=2, ffn_width=8)
    config = replace(apply_overrides(PRESETS[preset], small), embedding_norm=False, dropout=0.0)
    backbone = LanguageModel(config).backbone
    inputs: list[torch.Tensor] = []
    backbone.blocks[0].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    ids = torch.randint(config.vocab_size, (1, 40))
    with torch.no_grad():
        backbone(ids)
    positions = backbone.sinusoids[:40]
    words = inputs[0][0] - positions
    assert 0.5 < float(words.norm() / positions.norm()) < 2


def test_sinusoids_beside_unscaled_embeddings_are_refused() -> None:
    with pytest.raises(WarmstartError, match=r"positions=sinusoidal needs model\.scale_embedding"):
        replace(PRESETS["tiny"], positions="sinusoidal")


def test_rope_angles_are_points_on_a_circle() -> None:
    positions = torch.tensor([[0, 1, 2], [0, 0, 500]])
    cos, sin = rope_cos_sin(positions, 8)
    assert cos.shape == (2, 1, 3, 4)
    torch.testing.assert_close(cos**2 + sin**2, torch.ones(2, 1, 3, 4))
    assert torch.equal(cos[:, :, 0], torch.ones(2, 1, 4))
    assert float(sin[0, 0, 1, 0]) == pytest.approx(math.sin(1))  # the fastest pair rotates by one
