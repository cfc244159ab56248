"""Masks as pictures: the same as the model obeys."""

import numpy as np
import pytest
import torch
from looking import SHAPE
from torch import Tensor

from warmstart.batching.packing import pack
from warmstart.insight.attention_masks import batch_masks, cross_masks, packed_mask
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Translator
from warmstart.report.mask_figure import draw_masks
from warmstart.results.mask_picture import ALLOWED, DOCUMENT, LATER, PADDING
from warmstart.settings.model import ModelConfig

ROWS = (("<s>", "a", "b", "</s>"), ("<s>", "</s>"))


def _seen(backbone: Backbone, ids: Tensor, layout: Layout) -> np.ndarray:
    """Return which pairs got any attention: (B, T, S)."""
    kept: list[Tensor] = []
    with torch.inference_mode():
        backbone(ids, layout, attention_weights=kept)
    return (kept[0] > 0).any(1).numpy()


def _shape(attention: str) -> ModelConfig:
    from dataclasses import replace

    return replace(SHAPE, attention=attention)


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_a_padded_batch_is_masked_as_drawn(attention: str) -> None:
    pictures = batch_masks(ROWS, attention == "causal", "mask")
    is_token = torch.tensor([[True] * 4, [True, True, False, False]])
    seen = _seen(Backbone(_shape(attention)), torch.ones(2, 4, dtype=torch.long), Layout(is_token))
    for row, picture in enumerate(pictures):
        real = is_token[row].numpy()  # what padding attends to does not matter
        assert ((picture.cells == ALLOWED)[real] == seen[row][real]).all()
    assert pictures[1].keys == ("<s>", "</s>", "·", "·")
    assert (pictures[1].cells[1] == [ALLOWED, ALLOWED, *pictures[1].cells[1, 2:]]).all()
    kinds = {LATER, PADDING} if attention == "causal" else {PADDING}
    assert set(np.unique(pictures[1].cells)) == {ALLOWED, *kinds}


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_packed_documents_are_masked_as_drawn(attention: str) -> None:
    bos, eos = 0, 1
    ids = [0, 5, 6, 1, 0, 7, 1, 0, 1]
    picture = packed_mask([str(i) for i in ids], ids, bos, eos, attention == "causal")
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)
    layout = Layout(documents=batch.documents, positions=batch.positions)
    seen = _seen(Backbone(_shape(attention)), batch.ids, layout)
    assert ((picture.cells == ALLOWED) == seen[0]).all()
    assert picture.cells[4, 0] == DOCUMENT


def test_cross_masks_hide_the_padding_of_sources() -> None:
    from dataclasses import replace

    pictures = cross_masks(ROWS, (("<s>", "x"), ("<s>", "y", "z")))
    assert [p.cells.shape for p in pictures] == [(3, 4), (3, 4)]
    model = Translator(replace(SHAPE, decoder_depth=1))
    is_token = torch.tensor([[True] * 4, [True, True, False, False]])
    kept: list[Tensor] = []
    with torch.inference_mode():
        encoder_output = model.encode(torch.ones(2, 4, dtype=torch.long), is_token)
        target = torch.ones(2, 3, dtype=torch.long)
        model.decode(target, encoder_output, cross_attention_weights=kept)
    seen = (kept[0] > 0).any(1).numpy()
    for row, picture in enumerate(pictures):
        assert ((picture.cells == ALLOWED) == seen[row]).all()


def test_masks_are_described_and_drawn_at_any_size() -> None:
    pictures = batch_masks(ROWS, True, "causal mask")
    assert pictures[0].sentence == (
        "causal mask 1: attention is allowed for 10 of 16 query-key pairs (62%)"
    )
    long = batch_masks([["a"] * 120], True, "causal mask")
    for shown in (pictures, long):
        assert draw_masks(shown).axes
