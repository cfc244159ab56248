"""Which tokens of a batch may attend to which, from the masks that the model itself uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from warmstart import progress
from warmstart.batching.packing import pack
from warmstart.model.masks import causal_mask, document_mask, padding_mask
from warmstart.results.attention_weights import readable
from warmstart.results.model_views import ALLOWED, DOCUMENT, LATER, PADDING, UNREAD, MaskPicture
from warmstart.tokenization.tokenizer import Tokenizer

PAD = "<pad>"  # label of padding


@dataclass
class MaskTexts:
    """Splits texts into labels and ids: a run's tokens, or the words for a preset."""

    max_length: int
    tokenizer: Tokenizer | None  # None: split at spaces
    prepare: Callable[[str], str]  # a text as the tokenizer takes it
    vocab: dict[str, int] = field(default_factory=lambda: {"<s>": 0, "</s>": 1})

    @property
    def bos(self) -> int:
        return self.tokenizer.bos if self.tokenizer else 0

    @property
    def eos(self) -> int:
        return self.tokenizer.eos if self.tokenizer else 1

    def split(self, text: str, has_end: bool) -> tuple[list[str], list[int]]:
        """Return the labels and ids of a text; one that is too long is cut."""
        if self.tokenizer is None:
            labels = ["<s>", *text.split(), *(["</s>"] if has_end else [])]
            return labels, [self.vocab.setdefault(word, len(self.vocab)) for word in labels]
        ids = self.tokenizer.encode([self.prepare(text)])[0]
        room = self.max_length - 1 - has_end
        if len(ids) > room:
            progress.say(f"the text has {len(ids):,} tokens; the first {room:,} are used")
        # A text without an end is what a decoder reads, which always begins with bos.
        ids = [*self.tokenizer.start, *ids[:room], self.eos] if has_end else [self.bos, *ids[:room]]
        return [readable(piece) for piece in self.tokenizer.labels(ids)], ids


def batch_masks(rows: Sequence[Sequence[str]], is_causal: bool, name: str) -> list[MaskPicture]:
    """Return the mask of every text of a padded batch.

    A causal model needs no mask for padding: it is at the right, later than every token.
    """
    is_token, labels = _pad(rows)
    later, padding = _later_mask(is_token.shape[1], is_causal), padding_mask(is_token)
    return [
        _picture(
            f"{name} {number}" if len(rows) > 1 else name,
            row,
            row,
            later or {PADDING: padding[number - 1]},
            is_token[number - 1],
        )
        for number, row in enumerate(labels, 1)
    ]


def packed_mask(
    labels: Sequence[str], ids: Sequence[int], bos: int, eos: int, is_causal: bool
) -> MaskPicture:
    """Return the mask of one packed row; each of its documents is between `bos` and `eos`."""
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)  # packing drops the last id, only a target
    masks = {**_later_mask(len(labels), is_causal), DOCUMENT: document_mask(batch.documents)[0]}
    return _picture("packed row", labels, labels, masks, torch.ones(len(labels), dtype=torch.bool))


def cross_masks(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[MaskPicture]:
    """Return the masks with which a decoder attends to the sources of a padded batch."""
    is_source, source_labels = _pad(sources)
    is_target, target_labels = _pad(targets)
    rows = zip(target_labels, source_labels, padding_mask(is_source), is_target, strict=True)
    return [
        _picture(
            f"cross mask {number}" if len(sources) > 1 else "cross mask",
            target,
            source,
            {PADDING: mask},
            is_token,
        )
        for number, (target, source, mask, is_token) in enumerate(rows, 1)
    ]


def _later_mask(T: int, is_causal: bool) -> dict[int, Tensor]:  # noqa: N803
    return {LATER: causal_mask(T, T, torch.device("cpu"))[0]} if is_causal else {}


def _pad(rows: Sequence[Sequence[str]]) -> tuple[Tensor, list[tuple[str, ...]]]:
    """Return which positions hold a token (B, T), and the labels of the padded rows."""
    longest = max(map(len, rows))
    is_token = torch.tensor([[index < len(row) for index in range(longest)] for row in rows])
    return is_token, [(*row, *[PAD] * (longest - len(row))) for row in rows]


def _picture(
    title: str,
    queries: Sequence[str],
    keys: Sequence[str],
    masks: dict[int, Tensor],
    is_token: Tensor,
) -> MaskPicture:
    """Mark each pair as allowed, or as forbidden by the last mask (1, T or 1, S) that does so.

    `is_token` (T) is False for queries that are padding.
    """
    shape = (len(queries), len(keys))
    cells = np.full(shape, ALLOWED, dtype=np.int8)
    cells[~is_token.numpy()] = UNREAD
    for reason, mask in masks.items():
        cells[~mask[0].expand(shape).numpy()] = reason
    return MaskPicture(title=title, queries=tuple(queries), keys=tuple(keys), cells=cells)
