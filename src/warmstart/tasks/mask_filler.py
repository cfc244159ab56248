"""A masked language model in use: a text with masked words in, probable words out."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from warmstart.batching.batches import cut_to_budget, move, pad_texts
from warmstart.batching.truncation import truncate
from warmstart.errors import OVERFLOW, WarmstartError
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.tasks.text_model import (
    MICRO_TOKENS,
    FilledText,
    ProbableWord,
    TransformerModel,
    checks_keywords,
    list_texts,
)
from warmstart.tasks.vectors import forward_tokens
from warmstart.tokenization.tokenizer import USUAL, Tokenizer

# Text after a mask is encoded behind one of these, because many tokenizers put a space before the
# first character they read. The second serves where letters would join the first.
ANCHORS = ("a", ".")
MASKS_TOGETHER = 256  # masks whose probabilities, each over the vocabulary, are in memory together


@dataclass(frozen=True, kw_only=True)
class MaskFiller(TransformerModel):
    """A model that restores masked words."""

    @checks_keywords
    def fill_mask(
        self, texts: Iterable[str], top_k: int = 5, first_number: int = 1
    ) -> list[FilledText]:
        """Return the most probable words for every mask; an empty text stays empty.

        Errors number the texts from `first_number`.
        """
        texts = list_texts("fill_mask", "texts", texts)
        if top_k < 1:
            raise WarmstartError(f"top_k {top_k} is not allowed: it must be at least 1")
        parts = [split_at_masks(self.tokenizer, text) for text in texts]
        rows = [row for row, text in enumerate(texts) if text.strip()]
        encoded = [self._encode_masked(parts[row], first_number + row) for row in rows]
        filled = [FilledText(text, ()) for text in texts]
        for index, words in self._fill(encoded, top_k):
            filled[rows[index]] = _fill_in(parts[rows[index]], words)
        return filled

    def probable_words(self, text: str, top_k: int = 5) -> tuple[ProbableWord, ...]:
        """Return the most probable words for the first mask of a text."""
        return self.fill_mask([text], top_k)[0].masks[0]

    def _encode_masked(self, parts: list[str], number: int) -> list[int]:
        """Return the ids of one text; refuse a text that has no mask, or whose mask is cut off."""
        spellings, beginning = mask_spellings(self.tokenizer), "".join(parts)[:40]
        if len(parts) == 1:
            raise WarmstartError(
                f"text {number}, which begins {beginning!r}, has no masked word: write "
                f"{' or '.join(spellings)} where a word is missing"
            )
        ids = encode_masked(self.tokenizer, parts)
        room = self.config.max_length - 2
        kept = truncate(ids, room, self.truncate)
        if kept.count(self._mask) < len(parts) - 1:
            raise WarmstartError(
                f"text {number}, which begins {beginning!r}, has {len(ids):,} tokens, this model "
                f"reads {room:,}, and a masked word is not among them: shorten the text"
            )
        return [self.tokenizer.bos, *kept, self.tokenizer.eos]

    @property
    def _mask(self) -> int:
        if self.tokenizer.mask is None:
            raise WarmstartError(f"{self.name}: its tokenizer has no mask token")
        return self.tokenizer.mask

    @torch.inference_mode()
    def _fill(
        self, texts: list[list[int]], top_k: int
    ) -> Iterator[tuple[int, list[tuple[ProbableWord, ...]]]]:
        """Yield the number of each text with the words for each of its masks."""
        budget = forward_tokens(MICRO_TOKENS, self.runtime.device)
        for rows in cut_to_budget(range(len(texts)), texts, budget):
            words = self._words(texts, rows, top_k)
            for row in rows:
                yield row, [next(words) for _ in range(texts[row].count(self._mask))]

    def _words(
        self, texts: list[list[int]], rows: list[int], top_k: int
    ) -> Iterator[tuple[ProbableWord, ...]]:
        """Yield the most probable words for every mask of a batch, in order."""
        for probabilities in self._probabilities(texts, rows):  # (M, V)
            best = probabilities.topk(min(top_k, probabilities.shape[1]))
            for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                yield tuple(map(self.probable_word, ids, shares))

    def _probabilities(self, texts: list[list[int]], rows: list[int]) -> Iterator[Tensor]:
        """Yield the probability of every token at some masks, special tokens at zero: (M, V)."""
        model = cast(LanguageModel, self.model)
        unused = [0] * len(texts)
        batch = move(pad_texts(texts, unused, rows, self.tokenizer.pad), self.runtime.device)
        with self.runtime.precision():
            hidden = model.backbone(batch.ids, Layout(batch.is_token, segments=batch.segments))
        for at_masks in hidden[batch.ids == self._mask].split(MASKS_TOGETHER):  # (M, D)
            with self.runtime.precision():
                logits = model.head(at_masks, model.backbone.embed.weight).float()  # (M, V)
            if not logits.isfinite().all():
                raise WarmstartError(f"the model's outputs are NaN or infinite; {OVERFLOW}")
            suppressed = [*self.tokenizer.suppressed_ids(logits.shape[1]), self.tokenizer.eos]
            columns = torch.tensor(suppressed, device=logits.device)
            yield logits.softmax(-1).index_fill(1, columns, 0.0).cpu()


def _fill_in(parts: list[str], words: list[tuple[ProbableWord, ...]]) -> FilledText:
    """Return the text with the most probable words in it, and every choice."""
    best = [choices[0].word for choices in words] + [""]
    text = "".join(part + word for part, word in zip(parts, best, strict=True))
    return FilledText(text, tuple(words))


def mask_spellings(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the spellings of a masked word: the tokenizer's own first."""
    own = [] if tokenizer.mask is None else tokenizer.pieces([tokenizer.mask])
    return tuple(dict.fromkeys([*own, *USUAL["mask"]]))


def split_at_masks(tokenizer: Tokenizer, text: str) -> list[str]:
    """Split a text at its masks; there is one part more than masks."""
    return re.split("|".join(map(re.escape, mask_spellings(tokenizer))), text)


def encode_masked(tokenizer: Tokenizer, parts: list[str]) -> list[int]:
    """Return the ids of a text from the parts between its masks, the mask tokens included."""
    assert tokenizer.mask is not None
    # The space before a masked word belongs to the token that is missing.
    first, *rest = [part.rstrip() for part in parts[:-1]] + parts[-1:]
    ids = tokenizer.encode([first])[0] if first else []
    for part in rest:
        ids += [tokenizer.mask, *_encode_inside(tokenizer, part)]
    return ids


def _encode_inside(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text that follows another token."""
    for anchor in ANCHORS if text else ():
        before, ids = tokenizer.encode([anchor, anchor + text])
        if ids[: len(before)] == before:
            return ids[len(before) :]
    return tokenizer.encode([text])[0] if text else []
