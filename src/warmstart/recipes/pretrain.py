"""Text -> pretrained backbone."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

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
from warmstart.interop.exchange import say_if_not_exportable
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
    resumed_model,
    transfer_all,
)
from warmstart.runtime import num_threads
from warmstart.settings.model import ModelConfig, apply_overrides
from warmstart.settings.training import PretrainConfig
from warmstart.tasks.registry import pretraining_task, task_of
from warmstart.tasks.task import Pretraining, PretrainingData, PretrainingTask
from warmstart.tokenization.backends import load_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import HEAD_STEPS, compile_backbone, pretraining_rate, seed_weights
from warmstart.training.length import Clock, fix_steps
from warmstart.training.opening import open_training, training_runtime
from warmstart.training.optimizers import OptimizerSettings, build_optimizers, warmup_cosine
from warmstart.training.step import LoopSettings, RecordedObjective, prefetched
from warmstart.training.trainer import Trainer

SAMPLE_MB = 20  # text that a tokenizer is trained on, at most: more hardly changes its pieces


@dataclass(frozen=True)
class PretrainResult(Shown):
    """The outcome of a pretraining run."""

    run: Path
    valid: dict[str, float]  # validation scores by name; they depend on the objective
    summary: str  # the same in one phrase
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
    with open_training("pretrain", config) as run:
        if not run.is_finished:
            _train(config, run, clock)
    return _result(run)


def _train(config: PretrainConfig, run: RunFolder, clock: Clock) -> None:
    """Train the backbone of an unfinished run."""
    parent = _parent(config.from_run) if config.from_run else None
    task = pretraining_task(config.objective, parent)
    task.check(config)
    runtime = training_runtime(config)
    device = runtime.device.type
    recorded = recorded_values(run)
    given, config = config, config.for_device(device, recorded.get("batch_tokens"))
    if parent and not recorded:
        recorded = recorded_values(parent.folder)
    config = task.with_defaults(config, device, recorded)
    tokenizer, architecture, text = _prepare(given, task, run, parent, device)
    model, transfer = _model(config, task, architecture, parent)
    model.to(runtime.device)
    say_if_not_exportable(run, model)
    data = PretrainingData(config, tokenizer, text, runtime)
    training = task.training(model, data)
    optimizer = _optimizer_settings(config, architecture, transfer)
    num_tokens = text.train.num_tokens
    steps = config.num_steps(architecture.max_length, num_tokens, training.filled_share)
    if is_compiled := config.is_compiled(steps, device):
        compile_backbone(model.get_submodule("backbone"))
    trainer = _trainer(data, model, training, optimizer, run)
    if is_compiled and training.is_recordable:
        trainer.recorded = RecordedObjective(model, training.objective, runtime)
    fix_steps(trainer, given, clock, steps)
    announce(
        run,
        given,
        learning_rate=optimizer.learning_rate,
        batch_tokens=config.batch_tokens or 0,
        steps=trainer.settings.steps,
        max_length=architecture.max_length,
        **({} if config.document_loss is None else {"document_loss": config.document_loss}),
    )
    trainer.train("pretraining")
    if not run.is_read_only:
        _finish(config, run, trainer, training)


def _parent(path: str) -> SavedRun:
    parent = read_run(path)
    task = task_of(parent)
    if not task.is_pretraining:
        raise WarmstartError(f"--from {path} is {task.description}, not a pretrained run")
    return parent


def _prepare(
    config: PretrainConfig,
    task: PretrainingTask,
    run: RunFolder,
    parent: SavedRun | None,
    device: str,
) -> tuple[Tokenizer, ModelConfig, PreparedText]:
    """Return tokenizer, architecture and tokens: prepared now, or before a resume."""
    has_index = task.reads_sentences(config)
    source = source_of(config.files, config.document, config)
    if run.config_file.exists() and run.data_file.exists():
        facts = run.read_json(run.data_file)
        if not run.is_read_only:  # else only the tokens are read that another process prepared
            check_unchanged(run)
        tokenizer = load_tokenizer(run.path)
        if not run.cache.exists():
            _write_tokens(source, config, tokenizer, run, has_index)
            run.drop_shards()
        return tokenizer, resumed_model(run), read_prepared(run.cache, facts, has_index)
    refuse_together(config, "tokenizer", ("vocab_size",))
    preset = apply_overrides(config.preset_for(device), config)
    if run.finished_shards():  # of a preparation that was interrupted, with this tokenizer
        tokenizer = load_tokenizer(run.path)
    else:
        tokenizer = task.adapt_tokenizer(_tokenizer(config, preset, parent, source), parent)
    architecture = _architecture(config, preset, task, tokenizer, parent)
    write_config(run, "pretrain", config, architecture, task=task.name)
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
    return tokenizer, architecture, text


def _write_tokens(
    source: TextSource, config: PretrainConfig, tokenizer: Tokenizer, run: RunFolder, index: bool
) -> dict[str, Any]:
    """Prepare the text; return the facts for data.json."""
    valid = source_of(config.valid, config.document, config) if config.valid else None
    writer = ShardWriter(tokenizer, has_index=index)
    with workers_of(config.ray, config.threads or num_threads()) as open_workers:
        return prepare(source, valid, writer, run.cache, open_workers)


def _tokenizer(
    config: PretrainConfig, preset: ModelConfig, parent: SavedRun | None, source: TextSource
) -> Tokenizer:
    if parent:
        return parent.tokenizer
    if config.tokenizer:
        return load_tokenizer(Path(config.tokenizer))
    progress.say(f"training a {config.tokenizer_kind} tokenizer")
    size = preset.vocab_size if config.vocab_size is None else config.vocab_size
    return sample_tokenizer(source, config.tokenizer_kind, size, SAMPLE_MB)


def _architecture(
    config: PretrainConfig,
    preset: ModelConfig,
    task: PretrainingTask,
    tokenizer: Tokenizer,
    parent: SavedRun | None,
) -> ModelConfig:
    """Return the architecture asked for; a second stage keeps the first one's."""
    if not parent:
        sizes = replace(preset, vocab_size=tokenizer.vocab_size, decoder_depth=0)
        model = replace(sizes, ablated=config.ablate)
        return task.architecture(model, config, None)
    refuse_overrides(config, allowed=("dropout", "max_length"))
    refuse_together(config, "from", ("tokenizer", "vocab_size"))
    if config.ablate not in ("nothing", parent.model.ablated):
        raise WarmstartError(f"--ablate {config.ablate} has no effect with --from: start without")
    check_length(parent.model, config.max_length, parent.path)
    model = task.architecture(apply_overrides(parent.model, config), config, parent)
    if parent.model.attention != model.attention:
        progress.say(f"attention was {parent.model.attention} and is now {model.attention}")
    return model


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


def _optimizer_settings(
    config: PretrainConfig, model: ModelConfig, transfer: Transfer | None
) -> OptimizerSettings:
    """Return the settings; a head that is new learns alone first, lest it disturb the backbone."""
    is_second_stage = transfer is not None
    return OptimizerSettings(
        config.optimizer,
        config.learning_rate or pretraining_rate(model, config.optimizer, is_second_stage),
        config.weight_decay,
        head_steps=HEAD_STEPS if transfer and transfer.new else 0,
    )


def _trainer(
    data: PretrainingData,
    model: nn.Module,
    training: Pretraining,
    optimizer: OptimizerSettings,
    run: RunFolder,
) -> Trainer:
    config = data.settings
    return Trainer(
        model,
        training.objective,
        prefetched(training.stream, data.runtime.device),
        build_optimizers(model, optimizer),
        partial(warmup_cosine, warmup=0.0 if config.ablate == "warmup" else config.warmup),
        training.evaluate,
        LoopSettings.of(
            config,
            steps=0,  # fixed before it starts
            clip=config.clip,
            seed=config.seed,
            eval_every=config.eval_every,
            log_every=config.log_every,
        ),
        data.runtime,
        run,
    )


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
    }
    write_card(run, scores)
    run.finish(scores)
    run.drop_cache()


def _result(run: RunFolder) -> PretrainResult:
    task = pretraining_task(run.entry("task"))
    scores, valid = run.scores(), run.valid_scores()
    return PretrainResult(
        run.path, dict(valid), task.summary(valid), scores.tokens_seen, scores.elapsed_s
    )
