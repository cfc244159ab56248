"""Tagged words as a model reads them: the token of each word, windows of long texts, their outputs.

All tokens of a word learn its tag, and the mean of their logits decides it; in a causal model only
the last of them does both, which has seen the others. Texts longer than the model are read in
windows that overlap; each word is decided by the window in which it has most context.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
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
Decided = tuple[int, int, int]  # a word, its first token in a row and the one after its last
Row = tuple[list[int], list[Decided]]  # ids, and the words that they decide


@dataclass(frozen=True)
class WordBatch(Batch):
    """Words that a frozen backbone has already read; `ids` are the numbers of their rows."""

    vectors: Tensor  # (words, D)
    targets: Tensor  # (words,)


def tokens_of_words(
    words: Sequence[WordSpan], tokens: Sequence[WordSpan], model: ModelConfig
) -> Iterator[WordSpan]:
    """Yield the tokens that stand for each word: all of its own, or the last in a causal model.

    A word without tokens, such as one of characters that the tokenizer drops, has the token before.
    """
    first = 0
    for start, end in words:
        while first < len(tokens) - 1 and tokens[first][1] <= start:
            first += 1
        last = first
        while last + 1 < len(tokens) and tokens[last + 1][0] < end:
            last += 1
        yield (last if model.is_causal else first), last + 1


def windows(ids: Sequence[int], word_tokens: Sequence[WordSpan], max_length: int) -> Iterator[Row]:
    """Yield the rows in which a model reads a text; each word is decided by one of them.

    Every row has the first id, a start token unless it stands for a word, and the end token.
    """
    head = [] if any(start == 0 for start, _ in word_tokens) else list(ids[:1])
    inner, room = range(len(head), len(ids) - 1), max_length - len(head) - 1
    if len(inner) <= room:
        yield list(ids), [(word, *span) for word, span in enumerate(word_tokens)]
        return
    step = max(1, room // 2)
    starts = [*range(inner.start, inner.stop - room, step), inner.stop - room]
    middles = [(before + room + after) // 2 for before, after in pairwise(starts)]
    for start, low, high in zip(starts, [0, *middles], [*middles, len(ids)], strict=True):
        shift, stop = len(head) - start, start + room
        decided = [
            (word, first + shift, min(last, stop) + shift)
            for word, (first, last) in enumerate(word_tokens)
            if low <= first < high
        ]
        yield [*head, *ids[start:stop], ids[-1]], decided


class WordRows:
    """Texts as rows that fit into a model, and which words each row decides."""

    def __init__(self, texts: Dataset, max_length: int) -> None:
        self.num_words = [len(tokens) for tokens in texts.word_tokens]
        self.ids: list[list[int]] = []
        self.decided: list[tuple[int, list[Decided]]] = []  # a text, and words of it
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
            gathered[text][[word for word, *_ in decided]] = by_row[row]
        return gathered

    def tokens(self, row: int) -> list[WordSpan]:
        """Return the tokens of the words that a row decides."""
        return [(first, last) for _, first, last in self.decided[row][1]]


@torch.inference_mode()
def row_outputs(
    model: nn.Module, rows: WordRows, batches: TextBatches
) -> dict[int, NDArray[np.float64]]:
    """Return the probability of each tag for the words that each row decides: (words, C)."""
    model = pack_for(model, sum(map(len, rows.ids)), batches.runtime, "backbone")
    outputs = {}
    with batches.runtime.precision():
        for numbers, batch in padded_batches(rows.ids, batches):
            logits = model(batch.ids, Layout(batch.is_token, skips_padding=True))
            for row, of_row in zip(numbers, logits.cpu().double(), strict=True):
                outputs[row] = mean_by_word(of_row, rows.tokens(row)).softmax(-1).numpy()
    return outputs


def mean_by_word(values: Tensor, words: Sequence[WordSpan]) -> Tensor:
    """Return the mean over the tokens of each word (words, …) of values (T, …)."""
    sums = F.pad(values.cumsum(0), (0, 0, 1, 0))  # (T + 1, …)
    first, last = torch.tensor(words, dtype=torch.long).reshape(-1, 2).to(values.device).unbind(1)
    return (sums[last] - sums[first]) / (last - first)[:, None]


def _word_vectors(
    model: TokenClassifier,
    ids: Sequence[Sequence[int]],
    words: Sequence[Sequence[WordSpan]],
    fit: Fit,
) -> list[Tensor]:
    """Return the vectors of the words of each row, by a backbone without dropout.

    A linear head gives the mean vector of a word the mean of its tokens' logits.
    """
    depth = model.backbone.config.depth
    by_row = token_vectors(model.backbone, ids, fit.batches, [depth])
    means = (
        mean_by_word(of_row[0].cpu().double(), at) for of_row, at in zip(by_row, words, strict=True)
    )
    return [vectors.float().to(fit.runtime.device) for vectors in means]


@dataclass
class FrozenRows:
    """Validation texts as a frozen backbone reads them, once."""

    model: TokenClassifier
    rows: WordRows
    fit: Fit

    @cached_property
    def vectors(self) -> list[Tensor]:
        """Return the vectors of the words that each row decides."""
        words = list(map(self.rows.tokens, range(len(self.rows.ids))))
        return _word_vectors(self.model, self.rows.ids, words, self.fit)

    @torch.no_grad()
    def outputs(self) -> Outputs:
        """Return the probability of each tag for each word of every text."""
        shares = (self.model.head(of_row).cpu().double().softmax(-1) for of_row in self.vectors)
        return self.rows.gather({row: of_row.numpy() for row, of_row in enumerate(shares)})


def _target_spans(targets: Sequence[int]) -> Iterator[WordSpan]:
    """Yield the tokens that have a target, one by one."""
    for index, target in enumerate(targets):
        if target != IGNORE:
            yield index, index + 1


@dataclass
class FrozenStream:
    """The batches of a stream of texts, as vectors of their words; the backbone reads them once."""

    stream: LabelledStream
    model: TokenClassifier
    fit: Fit

    @cached_property
    def words(self) -> list[list[WordSpan]]:
        """Return the tokens of each row that have a target."""
        return [list(_target_spans(of_row)) for of_row in self.stream.targets]

    @cached_property
    def vectors(self) -> list[Tensor]:
        """Return the vectors of these words."""
        return _word_vectors(self.model, self.stream.texts, self.words, self.fit)

    def group(self, step: int, share: slice = ALL_ROWS) -> list[WordBatch]:
        """Return the batches of one optimizer step."""
        return [self._batch(rows) for rows in self.stream.rows(step, share)]

    def _batch(self, rows: list[int]) -> WordBatch:
        targets = self.stream.targets
        tags = [targets[row][first] for row in rows for first, _ in self.words[row]]
        vectors = torch.cat([self.vectors[row] for row in rows])
        return WordBatch(torch.tensor(rows), vectors, torch.tensor(tags, device=vectors.device))
