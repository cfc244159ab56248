"""Sentence pairs -> tokenizers of both languages, and token ids.

Knows nothing about models.
"""

from dataclasses import dataclass
from pathlib import Path

from warmstart import progress
from warmstart.batching.pair_batches import EncodedPairs, Texts
from warmstart.data.pairs import Pairs, read_aligned, read_pair_table
from warmstart.errors import WarmstartError
from warmstart.report.formats import counted
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import refuse_together
from warmstart.runs.saved import Source
from warmstart.settings.model import preset_named
from warmstart.settings.translation import DEFAULT_PRESET, TrainTranslatorConfig
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer, train_tokenizer


@dataclass(frozen=True)
class Tongues:
    """The tokenizers of both languages; one and the same when the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_joint(self) -> bool:
        """Tell whether both languages have one vocabulary."""
        return self.source is self.target

    def save(self, run: RunFolder) -> None:
        """Write them into the run."""
        self.source.save(run.path)
        if not self.is_joint:
            self.target.save(run.target_tokenizer)


def read_tongues(run: RunFolder) -> Tongues:
    """Read a run's tokenizers."""
    source = load_tokenizer(run.path)
    has_own = run.target_tokenizer.is_dir()
    return Tongues(source, load_tokenizer(run.target_tokenizer) if has_own else source)


def choose_tongues(config: TrainTranslatorConfig, train: Pairs, parent: Source | None) -> Tongues:
    """Return the tokenizers asked for: given, taken over from the parent, or trained now."""
    refuse_together(config, "from", ("tokenizer",))
    if config.target_tokenizer or config.vocabulary == "joint":  # nothing else is trained
        refuse_together(config, "from", ("vocab_size",))
        refuse_together(config, "tokenizer", ("vocab_size",))
    if config.shared and (config.target_tokenizer or config.vocabulary == "separate"):
        raise WarmstartError("--shared needs one vocabulary for both languages, not one for each")
    preset = preset_named(config.preset or DEFAULT_PRESET)
    size = config.vocab_size or preset.vocab_size
    given = load_tokenizer(Path(config.tokenizer)) if config.tokenizer else None
    source = parent.tokenizer if parent else given
    if config.target_tokenizer:
        if not source:
            raise WarmstartError("--target-tokenizer goes with --tokenizer, which is missing")
        return Tongues(source, load_tokenizer(Path(config.target_tokenizer)))
    if config.vocabulary == "joint":
        if source is None:
            progress.say(f"training a {config.kind} tokenizer on both languages")
            source = train_tokenizer((*train.sources, *train.targets), config.kind, size)
        return Tongues(source, source)
    progress.say(f"training a {config.kind} tokenizer for each language that has none")
    source = source or train_tokenizer(train.sources, config.kind, size)
    return Tongues(source, train_tokenizer(train.targets, config.kind, size))


def read_split(config: TrainTranslatorConfig, prefix: str) -> Pairs:
    """Read the pairs to train on, or with the prefix `valid_` those to choose by."""
    table = config.valid if prefix else config.train
    if table:
        pairs = read_pair_table(Path(table), config.columns)
    else:
        sides = (getattr(config, prefix + side) for side in ("source", "target"))
        pairs = read_aligned(*map(Path, sides))
    if pairs.skipped:
        progress.say(f"{pairs.files[0]}: skipped {counted(pairs.skipped, 'pair')} without text")
    return pairs


def encode_pairs(pairs: Pairs, tongues: Tongues, max_length: int) -> EncodedPairs:
    """Encode pairs, leaving out and counting those with a side too long to read."""
    room = max_length - 2
    with progress.bar("tokenizing", 2 * len(pairs), "sentence") as bar:
        sources = tongues.source.encode(pairs.sources)
        bar.advance(len(pairs))
        targets = tongues.target.encode(pairs.targets)
        bar.advance(len(pairs))
    kept = [row for row in range(len(pairs)) if max(len(sources[row]), len(targets[row])) <= room]
    if len(kept) < len(pairs):
        left_out = counted(len(pairs) - len(kept), "pair")
        progress.say(
            f"{left_out} of {len(pairs):,} in {pairs.files[0]} left out: "
            f"a side is longer than the {room:,} tokens that --max-length {max_length} leaves"
        )
    if not kept:
        raise WarmstartError(f"{pairs.files[0]}: no pair fits into --max-length {max_length}")
    s, t = tongues.source, tongues.target
    return EncodedPairs(
        Texts([s.bos, *sources[row], s.eos] for row in kept),
        Texts([t.bos, *targets[row], t.eos] for row in kept),
    )
