"""A training command as it would run: its own settings, resolved by its own function, as a job.

Data is read only as far as it decides the number of steps; large files are sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from sys import maxsize

import torch

from warmstart.batching.batches import TokenLists, round_lengths_up
from warmstart.data.corpus import source_of
from warmstart.formats import quantity
from warmstart.recipes import finetune, pretrain, train_translator
from warmstart.recipes.teachers import texts_to_teach
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import TrainingRun
from warmstart.settings.training import (
    FinetuneConfig,
    PretrainConfig,
    TrainTranslatorConfig,
    Tuning,
)
from warmstart.tasks.labelled_data import for_tokenizer, read_training_texts
from warmstart.tasks.registry import choose_task, finetuning_task, pretraining_task, read_backbone
from warmstart.tasks.task import TrainingJob
from warmstart.tasks.teaching import join_taught
from warmstart.tasks.translate import TranslateTask, read_training_pairs
from warmstart.tasks.vectors import forward_tokens
from warmstart.tokenization.backends import TokenizerPair, load_tokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import (
    finetuning_epochs,
    translation_consistency,
    translation_epochs,
)

SAMPLED_BYTES = 2_000_000  # of text, to estimate how many tokens it has
SAMPLED_TEXTS = 5_000  # of labelled texts and pairs
SENTENCE_TOKENS = 64  # on each side of a pair, where no pairs are given
TRAIN_SHARE = 0.99  # of the text, without --valid


@dataclass(frozen=True, kw_only=True)
class PlannedCommand:
    """A training command as it would run."""

    command: str
    settings: TrainingRun  # resolved
    job: TrainingJob
    steps: int | None  # at most; None: not known before there is data
    minutes: float | None = None
    epoch_steps: float | None = None  # steps of one pass over the data; None: not known
    num_read: int = 0  # texts that a frozen backbone reads, once each; 0: not known
    notes: tuple[str, ...] = ()


def planned_pretraining(given: PretrainConfig, device: str) -> PlannedCommand:
    """Return what `pretrain` would run on a kind of device."""
    parent = pretrain.read_pretrained(given.from_run) if given.from_run else None
    task = pretraining_task(given.objective, parent)
    task.check(given)
    config = pretrain.resolve(given, None, parent, device)
    tokenizer = _given_tokenizer(config, parent)
    model = pretrain.pretraining_architecture(config, task, parent)
    note, text_tokens, steps = "without text, the number of passes over it is unknown", 0, None
    if config.files:
        tokenizer, text_tokens = _sample_text(config, model.vocab_size, tokenizer)
        note = f"about {text_tokens:,} tokens of text, by a sample of it"
    if tokenizer and not parent:
        model = replace(model, vocab_size=task.adapt_tokenizer(tokenizer, None).vocab_size)
    if config.files or config.steps or config.tokens:
        steps = config.num_steps(model.max_length, text_tokens)
    job = task.job(config, model)
    return PlannedCommand(
        command="pretrain",
        settings=config,
        job=replace(job, is_compiled=config.is_compiled(steps or maxsize, device)),
        steps=steps,
        minutes=config.minutes,
        epoch_steps=text_tokens / job.step_tokens or None,
        notes=(note,),
    )


def _given_tokenizer(
    config: PretrainConfig | FinetuneConfig, parent: SavedRun | None
) -> Tokenizer | None:
    """Return the tokenizer that exists already; None: one is trained."""
    if parent:
        return parent.tokenizer
    return load_tokenizer(Path(config.tokenizer)) if config.tokenizer else None


def _sample_text(
    config: PretrainConfig, vocab_size: int, tokenizer: Tokenizer | None
) -> tuple[Tokenizer, int]:
    """Return the tokenizer, or one from a sample, and roughly the number of training tokens."""
    source, sample, size = (
        source_of(config.files, config.document, config, config.allow_private_urls),
        [],
        0,
    )
    for passage in source.passages():
        sample.append("\n".join(passage.rows))
        size += passage.num_bytes
        if size >= SAMPLED_BYTES:
            break
    tokenizer = tokenizer or train_tokenizer(sample, config.tokenizer_kind, vocab_size)
    num_tokens = sum(map(len, tokenizer.encode(sample))) + 2 * len(sample)
    num_bytes = source.num_bytes or sum(passage.num_bytes for passage in source.passages())
    share = 1.0 if config.valid else TRAIN_SHARE
    return tokenizer, max(1, round(share * num_tokens * max(1.0, num_bytes / size)))


@dataclass(frozen=True)
class LabelledSample:
    """What the labelled texts of a fine-tuning decide, or is assumed without them."""

    length: int  # tokens of a text, on average
    num_labels: int = 2
    num_train: int = 0
    num_valid: int = 0

    @property
    def note(self) -> str:
        if self.num_train:
            return f"{quantity(self.num_train, 'text')} of {self.length:,} tokens on average"
        return f"without --train, texts are as long as --max-length {self.length}, of two labels"


def planned_finetuning(given: FinetuneConfig, device: str) -> PlannedCommand:
    """Return what `finetune` would run on a kind of device."""
    given = choose_task(given)
    parent = read_backbone(given.from_run) if given.from_run else None
    config = finetune.resolve(given, None, parent, device)
    model = finetune.finetuning_architecture(config, parent)
    tokenizer, sample = _given_tokenizer(config, parent), LabelledSample(model.max_length)
    if config.train:
        tokenizer, sample = _sample_labelled(config, parent, model, tokenizer)
    if tokenizer and not parent:
        model = replace(model, vocab_size=tokenizer.vocab_size)
    job = finetuning_job(config, config.task, model, sample.length, sample.num_labels)
    is_read = config.frozen and not config.learns_shares
    epoch_steps = -(-sample.num_train // config.batch_size)
    epochs = finetuning_epochs(sample.num_train, config) if sample.num_train else 0
    return PlannedCommand(
        command="finetune",
        settings=config,
        job=reading_job(job, config, device) if is_read else job,
        steps=epochs * epoch_steps or None,
        num_read=sample.num_train + sample.num_valid,
        minutes=config.minutes,
        epoch_steps=epoch_steps or None,
        notes=(sample.note,),
    )


def finetuning_job(
    config: Tuning, task: str, model: ModelConfig, length: int, num_labels: int
) -> TrainingJob:
    """Return a step of a fine-tuning on texts of this length."""
    return TrainingJob(
        task=task,
        model=model,
        optimizer="adamw",
        rows=config.batch_size,
        micro_rows=min(config.batch_size, max(1, config.micro_tokens // length)),
        length=length,
        labels=num_labels,
    )


def reading_job(job: TrainingJob, config: Tuning, device: str) -> TrainingJob:
    """Return a fine-tuning's job as a pass that only reads, as of a frozen backbone."""
    rows = max(1, forward_tokens(config.micro_tokens, torch.device(device)) // job.length)
    return replace(job, rows=rows, micro_rows=rows, is_frozen=True)


def _sample_labelled(
    config: FinetuneConfig,
    parent: SavedRun | None,
    model: ModelConfig,
    tokenizer: Tokenizer | None,
) -> tuple[Tokenizer, LabelledSample]:
    """Return the tokenizer, or one from a sample, and what the labelled texts decide."""
    task = finetuning_task(config.task)
    texts = read_training_texts(config, task)
    labels = task.read_labels(texts[0])
    train, valid = finetune.take_labels(*texts, task, labels, config)
    if config.teacher:
        taught = texts_to_teach(config, parent, (train, valid))
        num = len(taught)
        train = join_taught(train, replace(taught, labels=[""] * num, shares=[{}] * num), config)
    sample = train.subset(_every(len(train), SAMPLED_TEXTS))
    tokenizer = tokenizer or train_tokenizer(sample.texts, "bpe", model.vocab_size)
    sample = for_tokenizer(sample, tokenizer, config.pieces)
    length = _mean_length(tokenizer, sample.texts, sample.seconds, model.max_length)
    num_labels = task.num_outputs(labels) or 2
    return tokenizer, LabelledSample(length, num_labels, len(train), len(valid))


@dataclass(frozen=True)
class PairSample:
    """What the sentence pairs of a translator decide, or is assumed without them."""

    length: int  # tokens on each side, on average
    consistency: float
    num_pairs: int = 0

    def notes(self, config: TrainTranslatorConfig) -> tuple[str, ...]:
        if self.num_pairs:
            pairs = quantity(self.num_pairs, "pair")
            return (f"{pairs} of {self.length:,} tokens on each side on average",)
        note = f"without pairs, sentences of {self.length} tokens on each side"
        if config.consistency is not None:
            return (note,)
        return note, "without pairs, --consistency is 0, its default with many"


def planned_translator(given: TrainTranslatorConfig, device: str) -> PlannedCommand:
    """Return what `train-translator` would run on a kind of device."""
    parent = train_translator.read_translator_parent(given.from_run) if given.from_run else None
    config = train_translator.resolve(given, None, parent, device)
    tokenizers = _given_tokenizers(config, parent)
    model = train_translator.translator_architecture(config, parent, tokenizers)
    length = min(SENTENCE_TOKENS, model.max_length)
    sample, steps, epoch_steps = PairSample(length, config.consistency or 0.0), config.steps, None
    if config.source or config.train:
        model, sample = _sample_pairs(config, parent, model, tokenizers)
        epoch_steps = -(-sample.num_pairs * 2 * sample.length // config.batch_tokens)
        epochs = config.epochs or translation_epochs(sample.num_pairs)
        steps = config.steps or epochs * epoch_steps
    return PlannedCommand(
        command="train-translator",
        settings=replace(config, consistency=sample.consistency),
        job=_translator_job(config, model, sample),
        steps=None if config.minutes else steps,
        minutes=config.minutes,
        epoch_steps=epoch_steps,
        notes=sample.notes(config),
    )


def _translator_job(
    config: TrainTranslatorConfig, model: ModelConfig, sample: PairSample
) -> TrainingJob:
    pair_tokens = 2 * sample.length
    rows = max(1, config.batch_tokens // pair_tokens)
    return TrainingJob(
        task=TranslateTask.name,
        model=model,
        optimizer=config.optimizer,
        rows=rows,
        micro_rows=min(rows, max(1, config.micro_tokens // pair_tokens)),
        length=sample.length,
        sides=2,
        label_smoothing=config.label_smoothing,
        consistency=sample.consistency,
    )


def _sample_pairs(
    config: TrainTranslatorConfig,
    parent: SavedRun | None,
    model: ModelConfig,
    tokenizers: TokenizerPair | None,
) -> tuple[ModelConfig, PairSample]:
    """Return the architecture with its tokenizers' vocabularies, and what the pairs decide."""
    pairs, _ = read_training_pairs(config)
    rows = _every(len(pairs), SAMPLED_TEXTS)
    sides = [[texts[row] for row in rows] for texts in (pairs.sources, pairs.targets)]
    if tokenizers is None:
        joint = train_tokenizer((*sides[0], *sides[1]), config.tokenizer_kind, model.vocab_size)
        tokenizers = TokenizerPair(joint, joint)
        model = train_translator.translator_architecture(config, parent, tokenizers)
    consistency = config.consistency
    if consistency is None:
        consistency = translation_consistency(len(pairs), model)
    length = _mean_pair_length(tokenizers, sides, model.max_length)
    return model, PairSample(length, consistency, len(pairs))


def _given_tokenizers(
    config: TrainTranslatorConfig, parent: SavedRun | None
) -> TokenizerPair | None:
    """Return the tokenizers that exist already; None: at least one is trained."""
    if parent and parent.model.decoder_depth:
        return parent.tokenizers
    source = parent.tokenizer if parent else None
    if config.tokenizer:
        source = load_tokenizer(Path(config.tokenizer))
    if source and config.target_tokenizer:
        return TokenizerPair(source, load_tokenizer(Path(config.target_tokenizer)))
    return TokenizerPair(source, source) if source and config.vocabulary == "joint" else None


def _every(num: int, most: int) -> list[int]:
    """Return at most `most` of `num` rows, evenly spaced."""
    return list(range(0, num, -(-num // most)))


def _mean_length(
    tokenizer: Tokenizer, texts: Sequence[str], seconds: Sequence[str] | None, most: int
) -> int:
    """Return the mean number of tokens of texts or pairs, with their special tokens."""
    sizes = [len(ids) + 2 for ids in tokenizer.encode(texts)]
    if seconds is not None:
        sizes = [a + len(b) + 1 for a, b in zip(sizes, tokenizer.encode(seconds), strict=True)]
    return round(sum(min(size, most) for size in sizes) / len(sizes))


def _mean_pair_length(tokenizers: TokenizerPair, sides: Sequence[Sequence[str]], most: int) -> int:
    """Return the mean number of tokens on the longer side of a pair, padded as in batches."""
    by_side = zip((tokenizers.source, tokenizers.target), sides, strict=True)
    lengths = [TokenLists(tokenizer.encode(texts)).lengths + 2 for tokenizer, texts in by_side]
    longer = lengths[0].clip(min=lengths[1])
    fitting = longer[longer <= most]
    return round(float(round_lengths_up(fitting).mean())) if len(fitting) else most
