"""Tagged words as a model reads them: the token of each word, windows of long texts, their outputs.

A word's tag is read from one of its tokens: the first, or in a causal model the last, which has
seen the others. Texts longer than the model are read in windows that overlap; each word is decided
by the window in which it has most context.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import ALL_ROWS, Batch, LabelledStream
from warmstart.data.labelled import Dataset, WordSpan
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import TokenClassifier
from warmstart.settings.model import ModelConfig
from warmstart.tasks.finetuning import Fit
from warmstart.tasks.vectors import TextBatches, pack_for, padded_batches, token_vectors

Outputs = NDArray[Any]  # for every text, the probability of each tag for each word: (words, C)
Row = tuple[list[int], list[tuple[int, int]]]  # ids, and the words they decide with their index


@dataclass(frozen=True)
class WordBatch(Batch):
    """Words that a frozen backbone has already read; `ids` are the numbers of their rows."""

    vectors: Tensor  # (words, D)
    targets: Tensor  # (words,)


def tokens_of_words(
    words: Sequence[WordSpan], tokens: Sequence[WordSpan], model: ModelConfig
) -> Iterator[int]:
    """Yield the token that stands for each word: its first, or its last in a causal model.

    A word without tokens, such as one of characters that the tokenizer drops, has the token before.
    """
    first = 0
    for start, end in words:
        while first < len(tokens) - 1 and tokens[first][1] <= start:
            first += 1
        last = first
        while model.is_causal and last + 1 < len(tokens) and tokens[last + 1][0] < end:
            last += 1
        yield last


def windows(ids: Sequence[int], word_tokens: Sequence[int], max_length: int) -> Iterator[Row]:
    """Yield the rows in which a model reads a text; each word is decided by one of them.

    Every row has the first id, a start token unless it stands for a word, and the end token.
    """
    head = [] if 0 in word_tokens else list(ids[:1])
    inner, room = range(len(head), len(ids) - 1), max_length - len(head) - 1
    if len(inner) <= room:
        yield list(ids), list(enumerate(word_tokens))
        return
    step = max(1, room // 2)
    starts = [*range(inner.start, inner.stop - room, step), inner.stop - room]
    middles = [(before + room + after) // 2 for before, after in pairwise(starts)]
    for start, low, high in zip(starts, [0, *middles], [*middles, len(ids)], strict=True):
        decided = [
            (word, token - start + len(head))
            for word, token in enumerate(word_tokens)
            if low <= token < high
        ]
        yield [*head, *ids[start : start + room], ids[-1]], decided


class Rows:
    """Texts as rows that fit into a model, and which words each row decides."""

    def __init__(self, texts: Dataset, max_length: int) -> None:
        self.num_words = [len(tokens) for tokens in texts.word_tokens]
        self.ids: list[list[int]] = []
        self.decided: list[tuple[int, list[tuple[int, int]]]] = []  # text, its words and indices
        for text, (ids, tokens) in enumerate(zip(texts.ids, texts.word_tokens, strict=True)):
            for row, decided in windows(ids, tokens, max_length):
                self.ids.append(row)
                self.decided.append((text, decided))

    def gather(self, by_row: Mapping[int, NDArray[np.float64]]) -> Outputs:
        """Return the values of each text's words, given those of the words of each row."""
        size = next(iter(by_row.values())).shape[1] if by_row else 0
        gathered = np.empty(len(self.num_words), object)
        gathered[:] = [np.zeros((num, size)) for num in self.num_words]
        for row, (text, decided) in enumerate(self.decided):
            gathered[text][[word for word, _ in decided]] = by_row[row]
        return gathered

    def indices(self, row: int) -> list[int]:
        """Return the tokens of a row whose words it decides."""
        return [index for _, index in self.decided[row][1]]


@torch.inference_mode()
def row_outputs(
    model: nn.Module, rows: Rows, batches: TextBatches
) -> dict[int, NDArray[np.float64]]:
    """Return the probability of each tag for the words that each row decides: (words, C)."""
    model = pack_for(model, sum(map(len, rows.ids)), batches.runtime, "backbone")
    outputs = {}
    with batches.runtime.precision():
        for numbers, batch in padded_batches(rows.ids, batches):
            logits = model(batch.ids, Layout(batch.is_token, skips_padding=True))
            shares = logits.double().softmax(-1).cpu().numpy()
            for place, row in enumerate(numbers):
                outputs[row] = shares[place, rows.indices(row)]
    return outputs


def _word_vectors(
    model: TokenClassifier, ids: Sequence[Sequence[int]], indices: Sequence[Sequence[int]], fit: Fit
) -> list[Tensor]:
    """Return the vectors of some tokens of each row, by a backbone without dropout."""
    depth = model.backbone.config.depth
    by_row = token_vectors(model.backbone, ids, fit.batches, [depth])
    device = fit.runtime.device
    return [vectors[0][list(at)].to(device) for vectors, at in zip(by_row, indices, strict=True)]


@dataclass
class FrozenRows:
    """Validation texts as a frozen backbone reads them, once."""

    model: TokenClassifier
    rows: Rows
    fit: Fit

    @cached_property
    def vectors(self) -> list[Tensor]:
        """Return the vectors of the words that each row decides."""
        indices = list(map(self.rows.indices, range(len(self.rows.ids))))
        return _word_vectors(self.model, self.rows.ids, indices, self.fit)

    @torch.no_grad()
    def outputs(self) -> Outputs:
        """Return the probability of each tag for each word of every text."""
        shares = (self.model.head(of_row).double().softmax(-1).cpu() for of_row in self.vectors)
        return self.rows.gather({row: of_row.numpy() for row, of_row in enumerate(shares)})


@dataclass
class FrozenWords:
    """Training words as a frozen backbone reads them, once."""

    model: TokenClassifier
    fit: Fit

    @cached_property
    def indices(self) -> list[list[int]]:
        """Return the tokens of each row that have a target."""
        targets = self.fit.train.targets
        return [[at for at, tag in enumerate(of_row) if tag != IGNORE] for of_row in targets]

    @cached_property
    def vectors(self) -> list[Tensor]:
        """Return the vectors of these tokens."""
        return _word_vectors(self.model, self.fit.train.ids, self.indices, self.fit)


@dataclass
class FrozenStream:
    """The batches of a stream of texts, as vectors of their words."""

    stream: LabelledStream
    words: FrozenWords

    def group(self, step: int, share: slice = ALL_ROWS) -> list[WordBatch]:
        """Return the batches of one optimizer step."""
        return [self._batch(rows) for rows in self.stream.rows(step, share)]

    def _batch(self, rows: list[int]) -> WordBatch:
        tags = [self.stream.targets[row][at] for row in rows for at in self.words.indices[row]]
        vectors = torch.cat([self.words.vectors[row] for row in rows])
        return WordBatch(torch.tensor(rows), vectors, torch.tensor(tags, device=vectors.device))
