"""Masks as pictures: the same as the model obeys."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from small_runs import SHAPE
from torch import Tensor

from warmstart.batching.packing import pack
from warmstart.look.mask import (
    ALLOWED,
    DOCUMENT,
    LATER,
    PADDING,
    UNREAD,
    BatchMasks,
    batch_masks,
    cross_masks,
    packed_mask,
)
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Translator
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
        assert (picture.is_allowed == seen[row]).all()
    assert pictures[1].keys == ("<s>", "</s>", "<pad>", "<pad>")
    forbidden = LATER if attention == "causal" else PADDING
    assert set(np.unique(pictures[1].cells[:2])) == {ALLOWED, forbidden}
    assert set(np.unique(pictures[1].cells[2:])) == {UNREAD, forbidden}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.booleans())
def test_every_padded_batch_is_masked_as_drawn(lengths: list[int], is_causal: bool) -> None:
    pictures = batch_masks([["a"] * length for length in lengths], is_causal, "mask")
    is_token = torch.tensor([[i < length for i in range(max(lengths))] for length in lengths])
    backbone = Backbone(_shape("causal" if is_causal else "bidirectional"))
    seen = _seen(backbone, torch.ones_like(is_token, dtype=torch.long), Layout(is_token))
    assert all((picture.is_allowed == seen[row]).all() for row, picture in enumerate(pictures))


def test_padded_causal_rows_count_what_the_model_uses() -> None:
    rows = (("<s>", "a", "b", "c", "d", "</s>"), ("<s>", "a", "b", "</s>"))
    assert [int(p.is_allowed.sum()) for p in batch_masks(rows, True, "mask")] == [21, 21]
    assert "21 of 36 query-key pairs (58%), 11 of them for padding" in (
        batch_masks(rows, True, "mask")[1].sentence
    )


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_packed_documents_are_masked_as_drawn(attention: str) -> None:
    bos, eos = 0, 1
    ids = [0, 5, 6, 1, 0, 7, 1, 0, 1]
    picture = packed_mask([str(i) for i in ids], ids, bos, eos, attention == "causal")
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)
    layout = Layout(documents=batch.documents, positions=batch.positions)
    seen = _seen(Backbone(_shape(attention)), batch.ids, layout)
    assert (picture.is_allowed == seen[0]).all()
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
        assert (picture.is_allowed == seen[row]).all()


def test_masks_are_described_and_drawn_at_any_size() -> None:
    pictures = batch_masks(ROWS, True, "causal mask")
    assert pictures[0].sentence == (
        "causal mask 1: attention is allowed for 10 of 16 query-key pairs (62%)"
    )
    long = batch_masks([["a"] * 120], True, "causal mask")
    for shown in (pictures, long):
        assert BatchMasks(tuple(shown)).draw().axes


@pytest.mark.parametrize("length", [4, 6, 40])
def test_titles_are_inside_the_figure(length: int) -> None:
    drawing = BatchMasks(
        tuple(batch_masks([["word"] * length, ["word"]], True, "causal mask"))
    ).draw()
    FigureCanvasAgg(drawing).draw()
    for axes in drawing.axes:
        titles = [child for child in axes.get_children() if isinstance(child, Text)]
        highest = max(title.get_window_extent().y1 for title in titles if title.get_text())
        assert highest <= drawing.bbox.height
