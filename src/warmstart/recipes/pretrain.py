"""Text -> pretrained backbone."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from warmstart import progress
from warmstart.data.corpus import TextSource, source_of
from warmstart.data.prepare import (
    PreparedText,
    check_known,
    prepare,
    read_prepared,
    sample_tokenizer,
    workers_of,
)
from warmstart.data.shards import ShardWriter
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.formats import duration
from warmstart.model.backbone import recompute_activations
from warmstart.recipes.advice import few_tokens_advice, little_text_advice
from warmstart.recipes.analysis import Analysis
from warmstart.recipes.card import write_card
from warmstart.report.html import Shown
from warmstart.report.training_figure import loss_curve
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    announce,
    check_length,
    check_unchanged,
    recorded_values,
    refuse_overrides,
    refuse_together,
    write_config,
)
from warmstart.runs.saved import (
    SavedRun,
    Transfer,
    lineage_of,
    read_run,
    recorded_model,
    resumed_model,
    transfer_all,
)
from warmstart.runtime import num_threads
from warmstart.settings.model import DEFAULT_PRESETS, ModelConfig, apply_overrides, preset_named
from warmstart.settings.training import BATCH_TOKENS, MICRO_TOKENS, PretrainConfig
from warmstart.tasks.hub import HubModel, say_not_exportable
from warmstart.tasks.latent_semantics import documents_of
from warmstart.tasks.registry import pretraining_task, task_of
from warmstart.tasks.task import Pretraining, PretrainingData, PretrainingTask
from warmstart.tokenization.backends import load_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import (
    HEAD_SHARE,
    HEAD_STEPS,
    compile_backbone,
    pretraining_rate,
    seed_weights,
)
from warmstart.training.length import Clock, set_length
from warmstart.training.opening import open_training, training_runtime
from warmstart.training.optimizers import (
    OptimizerSettings,
    build_optimizers,
    limit_head_steps,
    warmup_cosine,
)
from warmstart.training.step import LoopSettings, RecordedObjective, prefetch
from warmstart.training.trainer import Trainer

SAMPLE_MB = 20  # text that a tokenizer is trained on, at most: more hardly changes its pieces


@dataclass(frozen=True)
class PretrainResult(Shown):
    """The outcome of a pretraining run."""

    run: Path
    valid: dict[str, float]  # validation scores by name; they depend on the objective
    summary: str  # the scores in one phrase
    tokens: int  # seen in training
    elapsed_s: float

    def pieces(self) -> list[str]:
        seen = f"{self.tokens:,} tokens in {duration(self.elapsed_s)}"
        return [f"{self.run}: {self.summary}, after {seen}.", *loss_curve(self.run)]

    @property
    def perplexity(self) -> float:
        """Return the validation perplexity of a causal run."""
        return self.valid["perplexity"]


def pretrain(config: PretrainConfig) -> PretrainResult:
    """Pretrain a backbone on text and write a run folder."""
    clock = Clock(config.time)
    with open_training("pretrain", config) as run, Analysis(config, run) as analysis:
        if not run.is_finished:
            _train(config, run, clock, analysis)
            if not run.is_read_only:
                run.drop_cache()  # no longer mapped into memory: Windows deletes no such file
    return _result(run)


def _train(given: PretrainConfig, run: RunFolder, clock: Clock, analysis: Analysis) -> None:
    """Train the backbone of an unfinished run."""
    parent = read_pretrained(given.from_run) if given.from_run else None
    task = pretraining_task(given.objective, parent)
    task.check(given)
    runtime = training_runtime(given)
    config = resolve(given, run, parent, runtime.kind)
    tokenizer, architecture, text = _prepare(given, config, task, run, parent)
    if not run.is_read_only:
        analysis.begin(runtime.kind)
    model, transfer = _model(config, task, architecture, parent)
    model.to(runtime.device)
    has_next_sentence = hasattr(model, "next_sentence")
    hub = HubModel(model=architecture, task=task, has_next_sentence=has_next_sentence)
    say_not_exportable(str(run.path), hub.problem)
    data = PretrainingData(config, tokenizer, text, runtime)
    training = task.training(model, data)
    trainer = _trainer(data, model, training, transfer, run)
    trainer.restore()
    recorded = run.config()  # before the lead process changes it
    trainer.meet()
    if config.checkpoint_activations:
        recompute_activations(trainer.model)
    if config.shard:
        trainer.shard()
    set_length(trainer, given, recorded, clock, trainer.settings.steps)
    limit_head_steps(trainer.optimizers, trainer.settings.lengths[0].steps // HEAD_SHARE)
    announce(
        run,
        given,
        learning_rate=config.learning_rate or 0.0,
        batch_tokens=config.batch_tokens or 0,
        steps=trainer.settings.steps,
        max_length=architecture.max_length,
        **({} if config.document_loss is None else {"document_loss": config.document_loss}),
    )
    rows = trainer.settings.steps * config.rows_per_step(architecture.max_length)
    advice = few_tokens_advice(training.tokens_in(rows))
    if advice and not parent and not trainer.state.step:
        progress.say(advice)
    trainer.train("pretraining")
    if not run.is_read_only:
        analysis.finish()
        _finish(config, run, trainer, training)


def read_pretrained(path: str) -> SavedRun:
    """Read a run to continue pretraining from."""
    parent = read_run(path)
    task = task_of(parent)
    if not task.is_pretraining:
        raise WarmstartError(f"--from {path} is {task.description}, not a pretrained run")
    return parent


def resolve(
    config: PretrainConfig, run: RunFolder | None, parent: SavedRun | None, device: str
) -> PretrainConfig:
    """Return the settings with every default that is known before the text is read.

    A resumed run keeps its architecture and batch size, on whatever device it continues.
    """
    task = pretraining_task(config.objective, parent)
    recorded = recorded_values(run) if run else {}
    config = replace(
        config,
        objective=task.name,
        preset=config.preset or (None if parent else DEFAULT_PRESETS[device]),
        minutes=config.time,
        batch_tokens=config.batch_tokens or recorded.get("batch_tokens") or BATCH_TOKENS[device],
        micro_tokens=config.micro_tokens or MICRO_TOKENS[device],
    )
    model = recorded_model(run) or pretraining_architecture(config, task, parent)
    usual_rate = pretraining_rate(model, config.optimizer, is_second_stage=parent is not None)
    if parent and not recorded:
        recorded = recorded_values(parent.folder)
    return replace(
        config,
        max_length=model.max_length,
        learning_rate=config.learning_rate or usual_rate,
        **task.defaults(config, device, recorded),
    )


def pretraining_architecture(
    config: PretrainConfig, task: PretrainingTask, parent: SavedRun | None
) -> ModelConfig:
    """Return the architecture asked for; a second stage keeps that of the first.

    Without a parent, the vocabulary has the size that a tokenizer would be trained to.
    """
    if not parent:
        refuse_together(config, "tokenizer", ("vocab_size",))
        model = apply_overrides(preset_named(config.preset or ""), config)
        size = config.vocab_size or model.vocab_size
        model = replace(model, vocab_size=size, decoder_depth=0, ablated=config.ablate)
        return task.architecture(model, config, None)
    refuse_overrides(config, allowed=("dropout", "max_length"))
    refuse_together(config, "from", ("tokenizer", "vocab_size"))
    if config.ablate not in ("nothing", parent.model.ablated):
        raise WarmstartError(f"--ablate {config.ablate} has no effect with --from: start without")
    check_length(parent.model, config.max_length, parent.path)
    return task.architecture(apply_overrides(parent.model, config), config, parent)


def _prepare(
    given: PretrainConfig,
    config: PretrainConfig,
    task: PretrainingTask,
    run: RunFolder,
    parent: SavedRun | None,
) -> tuple[Tokenizer, ModelConfig, PreparedText]:
    """Return tokenizer, architecture and tokens: prepared now, or before a resume."""
    has_index = task.reads_sentences(config)
    source = source_of(config.files, config.document, config, config.allow_private_urls)
    if run.config_file.exists() and run.data_file.exists():
        facts = run.read_json(run.data_file)
        if not run.is_read_only:  # else another process prepares the tokens and checks the files
            check_unchanged(run)
        tokenizer = load_tokenizer(run.path)
        if not run.cache.exists():
            _write_tokens(source, config, tokenizer, run, has_index)
            run.drop_shards()
        return tokenizer, resumed_model(run), read_prepared(run.cache, facts, has_index)
    architecture = pretraining_architecture(config, task, parent)
    if run.finished_shards():  # an interrupted preparation used this tokenizer
        tokenizer = load_tokenizer(run.path)
    else:
        tokenizer = _tokenizer(config, architecture.vocab_size, parent, source)
        tokenizer = task.adapt_tokenizer(tokenizer, parent)
    if not parent:
        architecture = replace(architecture, vocab_size=tokenizer.vocab_size)
    elif parent.model.attention != architecture.attention:
        progress.say(f"attention was {parent.model.attention} and is now {architecture.attention}")
    write_config(run, "pretrain", given, architecture, task=task.name)
    tokenizer.save(run.path)
    facts = _write_tokens(source, config, tokenizer, run, has_index)
    if parent:
        facts["lineage"] = lineage_of(parent)
    write_json(run.data_file, facts)
    run.drop_shards()
    text = read_prepared(run.cache, facts, has_index)
    check_known(text.train, tokenizer)
    progress.say(
        f"{facts['tokens']:,} tokens to train on, {text.valid.num_tokens:,} to validate with, "
        f"vocabulary {tokenizer.vocab_size:,}"
    )
    if not parent:
        _warn_of_little_text(facts["tokens"], source)
    return tokenizer, architecture, text


def _warn_of_little_text(num_tokens: int, source: TextSource) -> None:
    with progress.silence():  # the files were described when the tokens were prepared
        advice = little_text_advice(num_tokens, documents_of(source))
    if advice:
        progress.say(advice)


def _write_tokens(
    source: TextSource, config: PretrainConfig, tokenizer: Tokenizer, run: RunFolder, index: bool
) -> dict[str, Any]:
    """Prepare the text; return the facts for data.json."""
    valid = None
    if config.valid:
        valid = source_of(config.valid, config.document, config, config.allow_private_urls)
    writer = ShardWriter(tokenizer, has_index=index)
    with workers_of(config.ray, config.threads or num_threads()) as open_workers:
        return prepare(source, valid, writer, run.cache, open_workers)


def _tokenizer(
    config: PretrainConfig, vocab_size: int, parent: SavedRun | None, source: TextSource
) -> Tokenizer:
    if parent:
        return parent.tokenizer
    if config.tokenizer:
        return load_tokenizer(Path(config.tokenizer))
    progress.say(f"training a {config.tokenizer_kind} tokenizer")
    return sample_tokenizer(source, config.tokenizer_kind, vocab_size, SAMPLE_MB)


def _model(
    config: PretrainConfig,
    task: PretrainingTask,
    architecture: ModelConfig,
    parent: SavedRun | None,
) -> tuple[nn.Module, Transfer | None]:
    """Return the model, and what it took over from the run that it starts from."""
    seed_weights(config.seed, "pretrain")
    model = task.new_model(architecture, config, parent)
    if not parent:
        return model, None
    transfer = transfer_all(parent.weights, model)
    progress.say(f"from {parent.path}: {transfer}")
    return model, transfer


def _trainer(
    data: PretrainingData,
    model: nn.Module,
    training: Pretraining,
    transfer: Transfer | None,
    run: RunFolder,
) -> Trainer:
    """Return a trainer of as many steps as are of use; compile the model if they repay it."""
    config, runtime = data.settings, data.runtime
    assert config.learning_rate is not None  # resolved
    length: int = model.config.max_length  # type: ignore[union-attr, assignment]
    steps = config.num_steps(length, data.text.train.num_tokens, training.filled_share)
    if is_compiled := config.is_compiled(steps, runtime.device.type):
        compile_backbone(model.get_submodule("backbone"))
    optimizer = OptimizerSettings(
        config.optimizer,
        config.learning_rate,
        config.weight_decay,
        head_steps=HEAD_STEPS if transfer and transfer.new else 0,  # lest it disturb the backbone
        dtype=runtime.dtype or torch.float32,
    )
    trainer = Trainer(
        model,
        training.objective,
        prefetch(training.stream, runtime.device),
        build_optimizers(model, optimizer),
        partial(warmup_cosine, warmup=0.0 if config.ablate == "warmup" else config.warmup),
        training.evaluate,
        LoopSettings.of(
            config,
            steps=steps,
            clip=config.clip,
            seed=config.seed,
            eval_every=config.eval_every,
            log_every=config.log_every,
        ),
        runtime,
        run,
    )
    if is_compiled and training.is_recordable:
        trainer.recorded = RecordedObjective(model, training.objective, runtime)
    return trainer


def _finish(
    config: PretrainConfig, run: RunFolder, trainer: Trainer, training: Pretraining
) -> None:
    """Write the model card and the scores, which mark the run as finished."""
    state = trainer.state
    architecture: ModelConfig = trainer.model.config  # type: ignore[assignment]
    scores: dict[str, Any] = {
        "valid": {**state.best_scores(), "step": state.best_step},
        "tokens_seen": training.tokens_in(
            state.step * config.rows_per_step(architecture.max_length)
        ),
        "elapsed_s": state.elapsed_s,
        "faults": state.faults,
        "overflows": state.overflows,
    }
    write_card(run, scores)
    run.finish(scores)


def _result(run: RunFolder) -> PretrainResult:
    task = pretraining_task(run.entry("task"))
    scores, valid = run.scores(), run.valid_scores()
    return PretrainResult(
        run.path, dict(valid), task.summary(valid), scores.tokens_seen, scores.elapsed_s
    )
