"""Sentence pairs -> translator."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from warmstart.batching.pair_batches import EncodedPairs, PairStream
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.pairs import Pairs
from warmstart.files import write_json
from warmstart.interop.model_card import write_card
from warmstart.model.models import Translator
from warmstart.recipes.export_model import say_if_not_exportable
from warmstart.report.outcomes import TranslatorResult
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    announce,
    check_unchanged,
    write_config,
)
from warmstart.runs.lineage import lineage_of
from warmstart.runs.saved import SavedRun, resumed_model
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.translating import TrainTranslatorConfig
from warmstart.tasks.translation import TranslateObjective, TranslateTask, TranslationValidation
from warmstart.tasks.translation_data import choose_tokenizers, encode_pairs, read_training_pairs
from warmstart.tasks.translation_start import (
    read_translator_parent,
    translator_architecture,
    warm_start_translator,
)
from warmstart.textfiles import file_facts
from warmstart.tokenization.pair import TokenizerPair, load_tokenizer_pair
from warmstart.training.averaging import evaluate_average, keep_snapshot, list_snapshots
from warmstart.training.defaults import (
    compile_translator,
    seed_weights,
    translation_consistency,
    translation_epochs,
    translation_rate,
)
from warmstart.training.length import fix_steps
from warmstart.training.loop_settings import LoopSettings
from warmstart.training.opening import open_training, training_runtime
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.pace import Clock
from warmstart.training.prefetch import prefetched
from warmstart.training.schedules import warmup_cosine, warmup_inverse_sqrt
from warmstart.training.state import Evaluation, State
from warmstart.training.step import RecordedObjective
from warmstart.training.trainer import Trainer

# Shorter trainings do not repay the quarter of a minute that compiling takes.
COMPILED_STEPS, COMPILED_MINUTES = 5_000, 3


def train_translator(config: TrainTranslatorConfig) -> TranslatorResult:
    """Train a translator on sentence pairs and write a run folder."""
    clock = Clock(config.minutes, final_validations=int(config.average > 1))
    with open_training("train-translator", config) as run:
        if not run.is_finished:
            _train(config, run, clock)
    return _result(run)


def _train(config: TrainTranslatorConfig, run: RunFolder, clock: Clock) -> None:
    """Train the translator of an unfinished run."""
    train, valid = read_training_pairs(config)
    runtime = training_runtime(config)
    parent = read_translator_parent(config.from_run) if config.from_run else None
    preset = config.preset_for(runtime.device.type)
    tokenizers, architecture = _tokenizers_and_architecture(config, preset, train, parent, run)
    encoded = [encode_pairs(p, tokenizers, architecture.max_length) for p in (train, valid)]
    seed_weights(config.seed, "translator")
    model = Translator(architecture)
    if parent:
        warm_start_translator(model, parent)
    if not run.data_file.exists():  # written last: everything before it is complete
        write_config(run, "train-translator", config, architecture, task=TranslateTask.name)
        tokenizers.save(run.path)
        write_json(run.data_file, _facts(train, valid, parent))
        say_if_not_exportable(run, model)
    model.to(runtime.device)
    validation = TranslationValidation(
        encoded[1], valid, tokenizers, config.micro_tokens, config.select, config.samples
    )
    is_cuda = runtime.device.type == "cuda"
    is_recorded = is_cuda if config.compile is None else config.compile
    stream = _stream(config, encoded[0], tokenizers, is_recorded)
    trainer = _trainer(config, model, stream, validation, runtime, run)
    epochs = config.epochs or translation_epochs(len(encoded[0]))
    steps = config.steps or epochs * stream.steps_per_epoch
    if is_recorded:
        trainer.recorded = RecordedObjective(model, trainer.objective, runtime)
    if config.compile or (is_recorded and _repays_compiling(config, steps)):
        compile_translator(model)
    fix_steps(trainer, config, clock, None if config.minutes else steps)
    announce(
        run,
        config,
        learning_rate=_learning_rate(config, architecture),
        batch_tokens=config.batch_tokens,
        consistency=_consistency(config, stream, architecture),
        steps=trainer.settings.steps,
        max_length=architecture.max_length,
    )
    state = trainer.train("training")
    evaluate = partial(validation, model, runtime)
    if not run.is_read_only:
        _finish(config, run, trainer, state, evaluate)


def _tokenizers_and_architecture(
    config: TrainTranslatorConfig,
    preset: ModelConfig,
    train: Pairs,
    parent: SavedRun | None,
    run: RunFolder,
) -> tuple[TokenizerPair, ModelConfig]:
    """Return both as chosen now, or as recorded before a resume."""
    if run.data_file.exists():
        check_unchanged(run)
        return load_tokenizer_pair(run.path), resumed_model(run)
    tokenizers = choose_tokenizers(config, train, parent, preset.vocab_size)
    return tokenizers, translator_architecture(config, preset, tokenizers, parent)


def _facts(train: Pairs, valid: Pairs, parent: SavedRun | None) -> dict[str, Any]:
    seen = fingerprints_of((*train.sources, *train.targets))
    rows = {Path(file): len(pairs) for pairs in (train, valid) for file in pairs.files}
    return {
        "files": file_facts(rows),
        "rows": len(train),
        "skipped": train.skipped,
        "fingerprints": seen.to_json(),
        "lineage": lineage_of(parent),
    }


def _learning_rate(config: TrainTranslatorConfig, model: ModelConfig) -> float:
    return config.learning_rate or translation_rate(model, config.optimizer)


def _consistency(config: TrainTranslatorConfig, stream: PairStream, model: ModelConfig) -> float:
    if config.consistency is not None:
        return config.consistency
    return translation_consistency(len(stream.pairs), model)


def _stream(
    config: TrainTranslatorConfig, pairs: EncodedPairs, tokenizers: TokenizerPair, is_recorded: bool
) -> PairStream:
    sizes = config.batch_tokens, config.micro_tokens
    return PairStream(pairs, *sizes, *tokenizers.pads, config.seed, is_rounded=is_recorded)


def _repays_compiling(config: TrainTranslatorConfig, steps: int) -> bool:
    if config.minutes:
        return config.minutes >= COMPILED_MINUTES
    return steps >= COMPILED_STEPS


def _trainer(
    config: TrainTranslatorConfig,
    model: Translator,
    stream: PairStream,
    validation: TranslationValidation,
    runtime: Runtime,
    run: RunFolder,
) -> Trainer:
    rate = _learning_rate(config, model.config)
    schedules = {"cosine": warmup_cosine, "inverse-sqrt": warmup_inverse_sqrt}

    def evaluate() -> Evaluation:
        if config.average > 1 and trainer.state.step:  # at step 0 a validation is only timed
            keep_snapshot(run, model, trainer.state.step, config.average)
        return validation(model, runtime)

    trainer = Trainer(
        model,
        TranslateObjective(config.label_smoothing, _consistency(config, stream, model.config)),
        prefetched(stream, runtime.device),
        build_optimizers(model, OptimizerSettings(config.optimizer, rate, config.weight_decay)),
        partial(schedules[config.schedule], warmup=config.warmup),
        evaluate,
        LoopSettings.of(
            config,
            steps=0,  # fixed before it starts
            clip=config.clip,
            seed=config.seed,
            eval_every=config.eval_every or stream.steps_per_epoch,
            log_every=config.log_every,
            patience=config.patience,
        ),
        runtime,
        run,
    )
    return trainer


def _finish(
    config: TrainTranslatorConfig,
    run: RunFolder,
    trainer: Trainer,
    state: State,
    evaluate: Callable[[], Evaluation],
) -> None:
    """Average the last weights where that helps, and write model card and scores."""
    scores, step, num_averaged = state.best_scores(), state.best_step, 1
    snapshots = list_snapshots(run, state.step)[-config.average :]
    if config.average > 1 and len(snapshots) > 1:
        mean = evaluate_average(trainer, snapshots, evaluate)
        if mean:
            num_averaged, step = len(snapshots), state.step
            scores |= {k.removeprefix("valid_"): v for k, v in mean.figures.items()}
            save_weights(run.weights_file, trainer.model.state_dict())
    valid = {"loss": scores["loss"], "bleu": scores["bleu"], "step": step}
    final = {"valid": {**valid, "averaged": num_averaged}, "elapsed_s": state.elapsed_s}
    write_card(run, final)
    run.finish(final)
    run.drop_snapshots()


def _result(run: RunFolder) -> TranslatorResult:
    valid = run.valid_scores()
    return TranslatorResult(
        run.path,
        valid["bleu"],
        valid["loss"],
        int(valid["step"]),
        int(valid["averaged"]),
        run.scores().elapsed_s,
    )
