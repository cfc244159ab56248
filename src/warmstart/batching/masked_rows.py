"""Rows for masked pretraining from a tokenizer and its settings, and held-out rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from warmstart.batching.batch import MaskedBatch
from warmstart.batching.masking import Corruption, masked_in_order, pairs_in_order
from warmstart.batching.next_sentence import NextSentencePairs
from warmstart.batching.packing import RunningText
from warmstart.data.token_file import SentenceFile, TokenFile
from warmstart.errors import WarmstartError
from warmstart.settings.pretraining import Masking
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import word_table

FIXED_SEED = 0  # validation and evaluation always mask the same tokens and draw the same pairs


def build_masking(tokenizer: Tokenizer, settings: Masking, seed: int) -> Corruption:
    """Return how tokens of this vocabulary are masked."""
    if tokenizer.mask is None:
        raise WarmstartError("the tokenizer has no mask token, which masking needs")
    specials = (tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.unk, tokenizer.mask)
    words = word_table(tokenizer) if settings.whole_words else None
    return Corruption(
        tokenizer.vocab_size,
        tuple(special for special in specials if special is not None),
        tokenizer.mask,
        settings.mask_rate,
        seed,
        words.begins if words else None,
        words.alone if words else None,
    )


def build_pairs(
    file: TokenFile, index: SentenceFile, length: int, tokenizer: Tokenizer, seed: int
) -> NextSentencePairs:
    """Return the next-sentence pairs of a text."""
    return NextSentencePairs(
        file.ids, index, length, tokenizer.bos, tokenizer.eos, tokenizer.pad, seed
    )


@dataclass(frozen=True)
class HeldOutRows:
    """Held-out text, masked the same way every time: pairs where there is an index, else rows."""

    file: TokenFile
    index: SentenceFile | None
    length: int
    tokenizer: Tokenizer
    masking: Corruption
    rows_per_batch: int

    def batches(self, max_tokens: int | None = None) -> Iterator[MaskedBatch]:
        """Yield the text; more than `max_tokens` is sampled in evenly spaced rows."""
        if self.index is not None:
            pairs = build_pairs(self.file, self.index, self.length, self.tokenizer, FIXED_SEED)
            return pairs_in_order(pairs, self.rows_per_batch, self.masking, max_tokens)
        text = RunningText(self.file.ids, self.length, self.tokenizer.bos, self.tokenizer.eos)
        return masked_in_order(text, self.rows_per_batch, self.masking, max_tokens)
