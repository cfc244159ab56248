"""The masked objective put together: what is hidden, what is paired, how validation judges.

What pretraining and evaluation have in common; knows nothing about run folders.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warmstart import progress
from warmstart.batching.batch import MaskedBatch
from warmstart.batching.masked_rows import masked_in_order, pairs_in_order
from warmstart.batching.masking import Corruption
from warmstart.batching.next_sentence import SentencePairs
from warmstart.data.sentence_file import SentenceFile
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import TokenFile
from warmstart.errors import WarmstartError
from warmstart.evaluation.masked import score_masked
from warmstart.model.models import LanguageModel
from warmstart.predictor import Predictor
from warmstart.recipes.prepare import TextSource, write_tokens
from warmstart.settings.masking import Masking
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import word_table

SHORTEST_PAIR = 5  # two tokens between three special ones
JUDGE_SEED = 0  # validation and evaluation always hide the same tokens and draw the same pairs


def build_corruption(
    tokenizer: Tokenizer, share: float, whole_words: bool, seed: int
) -> Corruption:
    """Return how tokens of this vocabulary are hidden."""
    if tokenizer.mask is None:
        raise WarmstartError("the tokenizer has no mask token, which hiding tokens needs")
    specials = (tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.unk, tokenizer.mask)
    words = word_table(tokenizer) if whole_words else None
    return Corruption(
        tokenizer.vocab_size,
        tuple(special for special in specials if special is not None),
        tokenizer.mask,
        share,
        seed,
        words.begins if words else None,
        words.alone if words else None,
    )


def build_pairs(
    file: TokenFile, index: SentenceFile, length: int, tokenizer: Tokenizer, seed: int
) -> SentencePairs:
    """Return pairs of segments from a token file."""
    marks = (tokenizer.bos, tokenizer.eos, tokenizer.pad)
    return SentencePairs(file.ids, index, length, *marks, seed)


def check_room(length: int) -> None:
    """Refuse rows that cannot hold two segments."""
    if length < SHORTEST_PAIR:
        raise WarmstartError(
            f"--max-length {length} is too short for pairs of segments: {SHORTEST_PAIR} or more, "
            "or add --no-nsp"
        )


def judging_batches(
    file: TokenFile,
    index: SentenceFile | None,
    length: int,
    tokenizer: Tokenizer,
    corruption: Corruption,
    rows_per_batch: int,
    limit: int | None = None,
) -> Iterator[MaskedBatch]:
    """Yield held-back text, the same every time: pairs where there is an index, else full rows."""
    if index is None:
        bos, eos = tokenizer.bos, tokenizer.eos
        return masked_in_order(file.ids, length, rows_per_batch, bos, eos, corruption, limit)
    pairs = build_pairs(file, index, length, tokenizer, JUDGE_SEED)
    return pairs_in_order(pairs, rows_per_batch, corruption, limit)


def score_text(source: TextSource, predictor: Predictor, batch_tokens: int) -> dict[str, Any]:
    """Score a masked run on text; the 95% intervals are over rows."""
    model, tokenizer = predictor.model, predictor.tokenizer
    assert isinstance(model, LanguageModel)
    finder = SentenceFinder(tokenizer) if hasattr(model, "next_sentence") else None
    hide = _corruption_of(predictor)
    length = predictor.source.model.max_length
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.bin"
        write_tokens(source, tokenizer, path, finder)
        file, index = TokenFile(path), SentenceFile(path) if finder else None
        if index and not index.has_pairs:
            progress.say(f"{source.files[0]} has no segments to pair: masked tokens alone count")
            index = None
        rows = max(1, batch_tokens // length)
        batches = judging_batches(file, index, length, tokenizer, hide, rows)
        found = score_masked(model, batches, predictor.runtime)
    return {
        **found.figures(),
        "masked_tokens": int(found.counts.sum()),
        "tokens": file.num_tokens,
        "intervals": {name: asdict(one) for name, one in found.intervals().items()},
    }


def _corruption_of(predictor: Predictor) -> Corruption:
    """Hide tokens as the run's own pretraining did; one that was imported, as BERT's."""
    given, plain = predictor.source.config.get("settings", {}), Masking()
    share = given.get("mask_rate", plain.mask_rate)
    whole_words = given.get("whole_words", plain.whole_words)
    return build_corruption(predictor.tokenizer, share, whole_words, JUDGE_SEED)
