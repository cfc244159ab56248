"""The attention masks of a batch: causal, padding, document and cross."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from torch import Tensor

from warmstart import progress
from warmstart.batching.packing import pack
from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.look.commands import LookMaskConfig
from warmstart.model.attention import causal_mask, document_mask, padding_mask
from warmstart.model.attention_weights import readable
from warmstart.report.html import Drawn
from warmstart.report.style import FAINT, save_image, styled
from warmstart.runs.saved import find_model
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import load_tokenizer_pair
from warmstart.tokenization.tokenizer import Tokenizer, text_reader

# Values of a cell: attention is allowed (of a token, or of padding, whose output nobody reads), or
# what forbids it.
ALLOWED, UNREAD, LATER, DOCUMENT, PADDING = range(5)
PAD = "<pad>"  # label of padding
# By value of a cell.
REASONS = (
    "allowed",
    "allowed for padding, not used",
    "masked: later token",
    "masked: another document",
    "masked: padding",
)
COLOURS = ("#d5521c", "#f2c4a8", "#e9e9e6", "#b7cfe6", "#f6e7b4")
MAX_LABELS = 72  # tokens that can be named beside a mask
PANEL = 2.9  # width and height of one of several masks, in inches
CELL = 0.24  # of a token with its label
TITLE = 0.4  # height of the two lines above a mask


@dataclass(frozen=True, kw_only=True)
class Mask:
    """One mask: each row is a query, each column a key."""

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    cells: NDArray[np.int8]  # (queries, keys)

    @property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Tell which pairs the model's own mask allows: (queries, keys)."""
        return (self.cells == ALLOWED) | (self.cells == UNREAD)

    @property
    def sentence(self) -> str:
        """Return how many query-key pairs the mask allows, as a clause without a full stop."""
        num_allowed, num_unread = int(self.is_allowed.sum()), int((self.cells == UNREAD).sum())
        unread = f", {num_unread:,} of them for padding, whose output is not used"
        return (
            f"{self.title}: attention is allowed for {num_allowed:,} of {self.cells.size:,} "
            f"query-key pairs ({self.is_allowed.mean():.0%}){unread if num_unread else ''}"
        )


@dataclass(frozen=True)
class BatchMasks(Drawn):
    """The masks of every text of a batch."""

    masks: tuple[Mask, ...]

    @styled
    def draw(self) -> Figure:
        """Draw masks beside each other, at most three in a row."""
        longest = max(max(mask.cells.shape) for mask in self.masks)
        columns = min(len(self.masks), 3 if longest <= 24 else 2)
        rows = -(-len(self.masks) // columns)
        size = max(PANEL, min(9.0 / columns, CELL * longest + 1.2))  # the same for every mask
        height = (size + TITLE) * rows + 0.7
        drawing = Figure(figsize=(size * columns + 0.2, height), layout="constrained")
        grid = drawing.subplots(rows, columns, squeeze=False).flatten()
        for axes, mask in zip(grid, self.masks, strict=False):
            _draw_mask(axes, mask)
        for axes in grid[len(self.masks) :]:
            axes.set_axis_off()
        present = sorted({int(cell) for mask in self.masks for cell in np.unique(mask.cells)})
        marks = [
            Patch(facecolor=COLOURS[reason], edgecolor=FAINT, linewidth=0.5, label=REASONS[reason])
            for reason in present
        ]
        ncols = min(len(marks), max(1, int(size * columns / 1.9)))
        drawing.legend(handles=marks, loc="outside lower center", ncols=ncols, frameon=False)
        return drawing


def look_mask(config: LookMaskConfig) -> BatchMasks:
    """Show which tokens of a batch may attend to which, and what forbids the rest."""
    shape, folder = find_model(config.model)
    _check_texts(config, is_translator=shape.decoder_depth > 0)
    tokenizer = target_tokenizer = None
    if folder:
        tokenizers = load_tokenizer_pair(folder.path)
        tokenizer, target_tokenizer = tokenizers.source, tokenizers.target
    texts = _texts(config, shape.max_length, tokenizer)
    if shape.decoder_depth:
        masks = _translator_masks(config, texts, _texts(config, shape.max_length, target_tokenizer))
    else:
        masks = _masks(config, texts, is_causal=shape.is_causal)
        _report_windows(shape)
    batch = BatchMasks(tuple(masks))
    save_image(batch.draw(), Path(config.out))
    return batch


def _report_windows(shape: ModelConfig) -> None:
    """Say how many blocks see less than the mask that is shown."""
    num_local = sum(map(shape.is_local, range(shape.depth)))
    if num_local:
        progress.say(
            f"{num_local} of {shape.depth} blocks see only {shape.local_window} tokens on each "
            "side of a token; the mask of the others is shown"
        )


def _check_texts(config: LookMaskConfig, is_translator: bool) -> None:
    if is_translator and (config.text or config.packed):
        raise WarmstartError(
            f"{config.model} is a translator: give --source and --target, not --text or --packed"
        )
    if is_translator and not (config.source and len(config.source) == len(config.target)):
        raise WarmstartError(
            f"--source is given {len(config.source)} times and --target {len(config.target)} "
            "times; a translator needs as many of each, at least one"
        )
    if not is_translator and (config.source or config.target):
        raise WarmstartError(f"{config.model} is no translator: give --text")
    if not is_translator and not config.text:
        raise WarmstartError("--text is missing: the text to show masks of")
    if any(not text.strip() for text in (*config.text, *config.source, *config.target)):
        raise WarmstartError("a text is empty; a mask needs at least one word")


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
        """Return the labels and ids of a text; a tokenizer cuts it to `max_length`."""
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


def _texts(config: LookMaskConfig, max_length: int, tokenizer: Tokenizer | None) -> MaskTexts:
    prepare = text_reader(tokenizer, config.pieces, config.model) if tokenizer else str
    return MaskTexts(max_length, tokenizer, prepare)


def _masks(config: LookMaskConfig, texts: MaskTexts, is_causal: bool) -> list[Mask]:
    splits = [texts.split(text, has_end=True) for text in config.text]
    if config.packed:
        labels = [label for labels, _ in splits for label in labels]
        ids = [index for _, ids in splits for index in ids]
        return [packed_mask(labels, ids, texts.bos, texts.eos, is_causal)]
    name = "causal mask" if is_causal else "bidirectional mask"
    return batch_masks([labels for labels, _ in splits], is_causal, name)


def _translator_masks(
    config: LookMaskConfig, source_texts: MaskTexts, target_texts: MaskTexts
) -> list[Mask]:
    sources = [source_texts.split(text, has_end=True)[0] for text in config.source]
    targets = [target_texts.split(text, has_end=False)[0] for text in config.target]
    return [
        *batch_masks(sources, False, "encoder mask"),
        *batch_masks(targets, True, "decoder mask"),
        *cross_masks(sources, targets),
    ]


def batch_masks(rows: Sequence[Sequence[str]], is_causal: bool, name: str) -> list[Mask]:
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
) -> Mask:
    """Return the mask of one packed row; each of its documents is between `bos` and `eos`."""
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)  # packing drops the last id, only a target
    masks = {**_later_mask(len(labels), is_causal), DOCUMENT: document_mask(batch.documents)[0]}
    return _picture("packed row", labels, labels, masks, torch.ones(len(labels), dtype=torch.bool))


def cross_masks(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[Mask]:
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
) -> Mask:
    """Mark each pair as allowed, or as forbidden by the last mask (1, T or 1, S) that does so.

    `is_token` (T) is False for queries that are padding.
    """
    shape = (len(queries), len(keys))
    cells = np.full(shape, ALLOWED, dtype=np.int8)
    cells[~is_token.numpy()] = UNREAD
    for reason, mask in masks.items():
        cells[~mask[0].expand(shape).numpy()] = reason
    return Mask(title=title, queries=tuple(queries), keys=tuple(keys), cells=cells)


def _draw_mask(axes: Axes, picture: Mask) -> None:
    T, S = picture.cells.shape
    norm = BoundaryNorm(np.arange(len(COLOURS) + 1) - 0.5, len(COLOURS))
    colours = ListedColormap(COLOURS)
    axes.imshow(picture.cells, cmap=colours, norm=norm, interpolation="nearest", aspect="auto")
    axes.set_box_aspect(1)  # masks of any shape have panels of one size
    num_allowed = int(picture.is_allowed.sum())
    title = f"{picture.title[0].upper()}{picture.title[1:]}"
    axes.set_title(f"{title} allows\n{num_allowed:,} of {picture.cells.size:,} pairs")
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if max(T, S) > MAX_LABELS:
        return
    size = 7.5 if max(T, S) <= 30 else 5.5
    axes.set_xticks(range(S), [shorten(t, 12) for t in picture.keys], rotation=90, fontsize=size)
    axes.set_yticks(range(T), [shorten(t, 12) for t in picture.queries], fontsize=size)
    axes.set_xticks(np.arange(0.5, S), minor=True)
    axes.set_yticks(np.arange(0.5, T), minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(True, which="minor", color="white", linewidth=0.8)
