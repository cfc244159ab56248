"""Sentence pairs for a translator: files, tokenizers, token ids."""

from pathlib import Path

from warmstart import progress
from warmstart.batching.pair_batches import EncodedPairs, TokenLists
from warmstart.data.pairs import Pairs, read_aligned, read_pair_table
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.runs.lifecycle import refuse_together
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import TableFormat
from warmstart.settings.translating import TrainTranslatorConfig
from warmstart.tokenization.load_tokenizer import load_tokenizer, train_tokenizer
from warmstart.tokenization.pair import TokenizerPair


def read_training_pairs(settings: TrainTranslatorConfig) -> tuple[Pairs, Pairs]:
    """Read the pairs to train on and the pairs to validate with."""
    train = _read(settings, settings.train, (settings.source, settings.target))
    valid = _read(settings, settings.valid, (settings.valid_source, settings.valid_target))
    return train, valid


def _read(tables: TableFormat, table: str | None, sides: tuple[str | None, str | None]) -> Pairs:
    if table:
        pairs = read_pair_table(Path(table), tables)
    else:
        source, target = (Path(side or "") for side in sides)
        pairs = read_aligned(source, target, tables.encoding)
    if pairs.description:
        progress.say(pairs.description)
    if pairs.skipped:
        skipped = counted(pairs.skipped, "pair")
        progress.say(f"{pairs.files[0]}: skipped {skipped} with an empty side")
    return pairs


def choose_tokenizers(
    settings: TrainTranslatorConfig, train: Pairs, parent: SavedRun | None, vocab_size: int
) -> TokenizerPair:
    """Return the tokenizers: given, taken over from the parent, or trained now.

    A trained one has `vocab_size` entries unless the settings say otherwise.
    """
    refuse_together(settings, "from", ("tokenizer",))
    if parent and parent.model.decoder_depth:
        refuse_together(settings, "from", ("target_tokenizer", "vocab_size"))
        return parent.tokenizers
    if settings.target_tokenizer or settings.vocabulary == "joint":  # no second one is trained
        refuse_together(settings, "from", ("vocab_size",))
        refuse_together(settings, "tokenizer", ("vocab_size",))
    if settings.shared and (settings.target_tokenizer or settings.vocabulary == "separate"):
        raise WarmstartError("--shared needs one vocabulary for both languages")
    size = settings.vocab_size or vocab_size
    source = load_tokenizer(Path(settings.tokenizer)) if settings.tokenizer else None
    if parent:
        source = parent.tokenizer
    if settings.target_tokenizer:
        if not source:
            raise WarmstartError("--target-tokenizer needs --tokenizer, which is missing")
        return TokenizerPair(source, load_tokenizer(Path(settings.target_tokenizer)))
    kind = settings.tokenizer_kind
    if settings.vocabulary == "joint":
        if source is None:
            progress.say(f"training a {kind} tokenizer on both languages")
            source = train_tokenizer((*train.sources, *train.targets), kind, size)
        return TokenizerPair(source, source)
    progress.say(f"training a {kind} tokenizer for each language that has none")
    source = source or train_tokenizer(train.sources, kind, size)
    return TokenizerPair(source, train_tokenizer(train.targets, kind, size))


def encode_pairs(pairs: Pairs, tokenizers: TokenizerPair, max_length: int) -> EncodedPairs:
    """Encode pairs; leave out and count those with a side that is too long."""
    room = max_length - 2
    with progress.bar("tokenizing", 2 * len(pairs), "sentence") as bar:
        sources = tokenizers.source.encode(pairs.sources)
        bar.advance(len(pairs))
        targets = tokenizers.target.encode(pairs.targets)
        bar.advance(len(pairs))
    fits = [row for row in range(len(pairs)) if max(len(sources[row]), len(targets[row])) <= room]
    if len(fits) < len(pairs):
        left_out = counted(len(pairs) - len(fits), "pair")
        progress.say(
            f"{left_out} of {len(pairs):,} in {pairs.files[0]} left out: "
            f"a side is longer than the {room:,} tokens that --max-length {max_length} leaves"
        )
    if not fits:
        raise WarmstartError(f"{pairs.files[0]}: no pair fits into --max-length {max_length}")
    source, target = tokenizers.source, tokenizers.target
    return EncodedPairs(
        TokenLists([*source.start, *sources[row], source.eos] for row in fits),
        TokenLists([target.bos, *targets[row], target.eos] for row in fits),
    )
