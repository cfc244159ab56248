"""Sentence pairs -> translator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.batches import EncodedPairs, PairStream
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.pairs import Pairs
from warmstart.decoding.engines import check_can_decode
from warmstart.errors import WarmstartError
from warmstart.files import remove_own, write_json
from warmstart.formats import duration
from warmstart.model.backbone import recompute_activations
from warmstart.model.models import Translator
from warmstart.recipes.card import write_card
from warmstart.report.html import Shown
from warmstart.report.training_figure import loss_curve
from warmstart.runs.checkpoint import State, read_weights, save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    announce,
    check_length,
    check_unchanged,
    refuse_overrides,
    refuse_together,
    write_config,
)
from warmstart.runs.saved import (
    SavedRun,
    lineage_of,
    read_run,
    recorded_model,
    resumed_model,
    transfer_all,
)
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig, apply_overrides, preset_named
from warmstart.settings.training import DEFAULT_TRANSLATORS, TrainTranslatorConfig
from warmstart.tasks.hub import HubModel, say_not_exportable
from warmstart.tasks.registry import task_of
from warmstart.tasks.translate import (
    TranslateObjective,
    TranslateTask,
    TranslationValidation,
    choose_tokenizers,
    encode_pairs,
    read_training_pairs,
)
from warmstart.textfiles import file_facts
from warmstart.tokenization.backends import TokenizerPair, load_tokenizer_pair
from warmstart.training.defaults import (
    compile_translator,
    seed_weights,
    translation_consistency,
    translation_epochs,
    translation_rate,
)
from warmstart.training.length import Clock, set_length
from warmstart.training.opening import open_training, training_runtime
from warmstart.training.optimizers import (
    OptimizerSettings,
    build_optimizers,
    warmup_cosine,
    warmup_inverse_sqrt,
)
from warmstart.training.step import Evaluation, LoopSettings, RecordedObjective, prefetch
from warmstart.training.trainer import Trainer

# Shorter trainings do not repay the quarter of a minute that compiling takes.
COMPILED_STEPS, COMPILED_MINUTES = 5_000, 3


@dataclass(frozen=True)
class TranslatorResult(Shown):
    """The outcome of training a translator."""

    run: Path
    bleu: float  # greedy, on validation, of the saved weights
    loss: float
    step: int  # the best one; the last one where weights were averaged
    num_averaged: int  # validations whose weights were averaged
    elapsed_s: float

    def pieces(self) -> list[str]:
        scores = f"BLEU {self.bleu:.1f}, loss {self.loss:.3f} on validation"
        reached = f"{self.run}: {scores}, at step {self.step:,}, in {duration(self.elapsed_s)}."
        return [reached, *loss_curve(self.run)]


def train_translator(config: TrainTranslatorConfig) -> TranslatorResult:
    """Train a translator on sentence pairs and write a run folder."""
    clock = Clock(config.minutes, final_validations=int(config.average > 1))
    with open_training("train-translator", config) as run:
        if not run.is_finished:
            _train(config, run, clock)
    return _result(run)


def _train(given: TrainTranslatorConfig, run: RunFolder, clock: Clock) -> None:
    """Train the translator of an unfinished run."""
    runtime = training_runtime(given)
    config, trainer, validation = _prepare(given, run, runtime)
    steps = None if config.minutes else trainer.settings.steps
    trainer.restore()
    recorded = run.config()  # before the lead process changes it
    trainer.meet()
    if config.checkpoint_activations:
        recompute_activations(trainer.model)
    if config.shard:
        trainer.shard()
    set_length(trainer, given, recorded, clock, steps)
    announce(
        run,
        given,
        learning_rate=config.learning_rate or 0.0,
        batch_tokens=config.batch_tokens,
        consistency=config.consistency or 0.0,
        steps=trainer.settings.steps,
        max_length=config.max_length or 0,
    )
    state = trainer.train("training")
    if not run.is_read_only:
        evaluate = partial(validation, cast(Translator, trainer.model), runtime)
        _finish(config, run, trainer, state, evaluate)


def _prepare(
    given: TrainTranslatorConfig, run: RunFolder, runtime: Runtime
) -> tuple[TrainTranslatorConfig, Trainer, TranslationValidation]:
    """Read the pairs, write what the run records of them, and build the trainer."""
    check_can_decode(runtime)
    train, valid = read_training_pairs(given)
    device = runtime.kind
    parent = read_translator_parent(given.from_run) if given.from_run else None
    config = resolve(given, run, parent, device)
    tokenizers, architecture = _tokenizers_and_architecture(config, train, parent, run, device)
    encoded = [encode_pairs(p, tokenizers, architecture.max_length) for p in (train, valid)]
    model = _initial_model(architecture, parent, config.seed)
    if not run.data_file.exists():  # written last: everything before it is complete
        write_config(run, "train-translator", given, architecture, task=TranslateTask.name)
        tokenizers.save(run.path)
        write_json(run.data_file, _facts(train, valid, parent))
        hub = HubModel(model=architecture, task=TranslateTask())
        say_not_exportable(str(run.path), hub.problem)
    model.to(runtime.device)
    validation = TranslationValidation(
        encoded[1], valid, tokenizers, config.micro_tokens, config.select, config.samples
    )
    if config.consistency is None:
        usual = translation_consistency(len(encoded[0]), architecture)
        config = replace(config, consistency=usual)
    stream = _stream(config, encoded[0], tokenizers, _is_recorded(config, runtime))
    return config, _trainer(config, model, stream, validation, runtime, run), validation


def _initial_model(architecture: ModelConfig, parent: SavedRun | None, seed: int) -> Translator:
    """Return a translator with seeded weights, and with those of its parent."""
    seed_weights(seed, "translator")
    model = Translator(architecture)
    if parent:
        warm_start_translator(model, parent)
    return model


def resolve(
    config: TrainTranslatorConfig, run: RunFolder | None, parent: SavedRun | None, device: str
) -> TrainTranslatorConfig:
    """Return the settings with every default that is known before the pairs are read.

    A resumed run keeps the architecture it was started with; `run` is None without a folder.
    """
    config = replace(
        config, preset=None if parent else config.preset or DEFAULT_TRANSLATORS[device]
    )
    model = recorded_model(run) or translator_architecture(config, parent)
    return replace(
        config,
        max_length=model.max_length,
        learning_rate=config.learning_rate or translation_rate(model, config.optimizer),
    )


def translator_architecture(
    config: TrainTranslatorConfig, parent: SavedRun | None, tokenizers: TokenizerPair | None = None
) -> ModelConfig:
    """Return the architecture asked for; weights that exist keep theirs.

    Without tokenizers, vocabularies have the size that tokenizers would be trained to.
    """
    if parent:
        refuse_overrides(config, allowed=("dropout", "max_length"))
        check_length(parent.model, config.max_length, parent.path)
        if parent.model.decoder_depth:
            refuse_together(config, "from", ("decoder_depth", "shared"))
            return apply_overrides(parent.model, config)
        encoder = replace(parent.model, attention="bidirectional", pooler=False)
    else:
        encoder = replace(preset_named(config.preset or ""), attention="bidirectional")
    is_joint = config.vocabulary == "joint" and not config.target_tokenizer
    source_size = target_size = config.vocab_size or encoder.vocab_size
    if tokenizers:
        is_joint, source_size = tokenizers.is_joint, tokenizers.source.vocab_size
        target_size = tokenizers.target.vocab_size
    return replace(
        apply_overrides(encoder, config),
        vocab_size=parent.model.vocab_size if parent else source_size,
        decoder_depth=config.decoder_depth or encoder.decoder_depth or encoder.depth,
        target_vocab_size=0 if is_joint else target_size,
        shared=is_joint if config.shared is None else config.shared,
    )


def _tokenizers_and_architecture(
    config: TrainTranslatorConfig,
    train: Pairs,
    parent: SavedRun | None,
    run: RunFolder,
    device: str,
) -> tuple[TokenizerPair, ModelConfig]:
    """Return tokenizers and architecture, chosen now or recorded before a resume."""
    if run.data_file.exists():
        check_unchanged(run)
        return load_tokenizer_pair(run.path), resumed_model(run)
    size = preset_named(config.preset or DEFAULT_TRANSLATORS[device]).vocab_size
    tokenizers = choose_tokenizers(config, train, parent, size)
    return tokenizers, translator_architecture(config, parent, tokenizers)


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


def _stream(
    config: TrainTranslatorConfig, pairs: EncodedPairs, tokenizers: TokenizerPair, is_recorded: bool
) -> PairStream:
    sizes = config.batch_tokens, config.micro_tokens
    return PairStream(pairs, *sizes, *tokenizers.pads, config.seed, is_rounded=is_recorded)


def _is_recorded(config: TrainTranslatorConfig, runtime: Runtime) -> bool:
    """Tell whether steps are recorded and replayed."""
    return runtime.device.type == "cuda" if config.compile is None else config.compile


def _is_compiled(config: TrainTranslatorConfig, runtime: Runtime, steps: int) -> bool:
    """Tell whether to compile blocks for a training of at most this many steps."""
    is_long = steps >= COMPILED_STEPS
    if config.minutes:
        is_long = config.minutes >= COMPILED_MINUTES
    return bool(config.compile) or (_is_recorded(config, runtime) and is_long)


def _trainer(
    config: TrainTranslatorConfig,
    model: Translator,
    stream: PairStream,
    validation: TranslationValidation,
    runtime: Runtime,
    run: RunFolder,
) -> Trainer:
    """Return a trainer of all epochs; record and compile its steps where that pays."""
    assert config.learning_rate is not None  # resolved
    epochs = config.epochs or translation_epochs(len(stream.pairs))
    steps = config.steps or epochs * stream.steps_per_epoch
    optimizer = OptimizerSettings(
        config.optimizer,
        config.learning_rate,
        config.weight_decay,
        dtype=runtime.dtype or torch.float32,
    )
    schedules = {"cosine": warmup_cosine, "inverse-sqrt": warmup_inverse_sqrt}

    def evaluate() -> Evaluation:
        if config.average > 1 and trainer.state.step:  # at step 0 a validation is only timed
            keep_snapshot(run, model, trainer.state.step, config.average)
        return validation(model, runtime)

    trainer = Trainer(
        model,
        TranslateObjective(config.label_smoothing, config.consistency or 0.0),
        prefetch(stream, runtime.device),
        build_optimizers(model, optimizer),
        partial(schedules[config.schedule], warmup=config.warmup),
        evaluate,
        LoopSettings.of(
            config,
            steps=steps,
            clip=config.clip,
            seed=config.seed,
            eval_every=config.eval_every or stream.steps_per_epoch,
            log_every=config.log_every,
            patience=config.patience,
        ),
        runtime,
        run,
    )
    if _is_recorded(config, runtime):
        trainer.recorded = RecordedObjective(model, trainer.objective, runtime)
    if _is_compiled(config, runtime, steps):
        compile_translator(model)
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
    final = {
        "valid": {**valid, "averaged": num_averaged},
        "elapsed_s": state.elapsed_s,
        "faults": state.faults,
        "overflows": state.overflows,
    }
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


def read_translator_parent(path: str) -> SavedRun:
    """Read the run to start from: a translator, or a backbone that becomes the encoder."""
    parent = read_run(path)
    task = task_of(parent)
    is_backbone = task.is_pretraining and parent.model.attention == "bidirectional"
    if not is_backbone and not parent.model.decoder_depth:
        raise WarmstartError(
            f"--from {path} is {task.description}; a translator starts from another one, or from a "
            "bidirectional backbone, which `warmstart pretrain --objective masked` trains"
        )
    parent.refuse_if_ablated("start a translator")
    return parent


def warm_start_translator(model: Translator, parent: SavedRun) -> None:
    """Load the weights of the parent: a whole translator, or an encoder alone."""
    if parent.model.decoder_depth:
        progress.say(f"from {parent.path}: {transfer_all(parent.weights, model)}")
        return
    weights = {
        name.replace("backbone.", "encoder.", 1): tensor
        for name, tensor in parent.weights.items()
        if name.startswith("backbone.") and ".pooler." not in name
    }
    transfer = transfer_all(weights, model)
    missing = [name for name in transfer.new if name.startswith("encoder.")]
    if missing:
        raise WarmstartError(f"{parent.path}: its weights lack {', '.join(missing[:3])}")
    progress.say(
        f"encoder from {parent.path}: {len(transfer.loaded)} tensors loaded, the rest is new"
    )


def keep_snapshot(run: RunFolder, model: nn.Module, step: int, keep: int) -> None:
    """Keep the weights of the newest validations, to be averaged at the end."""
    save_weights(run.snapshots / f"step-{step}.safetensors", model.state_dict())
    for old in list_snapshots(run, up_to=step)[:-keep]:
        remove_own(old)


def list_snapshots(run: RunFolder, up_to: int) -> list[Path]:
    """Return the snapshots up to a step, in order; a killed process may have left later ones."""
    numbered = {int(path.stem.removeprefix("step-")): path for path in run.snapshots.glob("step-*")}
    return [numbered[step] for step in sorted(numbered) if step <= up_to]


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of several models' weights, summed in double precision."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in read_weights(file).items():
            total[name] = total.get(name, torch.zeros(())) + tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}


def evaluate_average(
    trainer: Trainer, snapshots: Sequence[Path], evaluate: Callable[[], Evaluation]
) -> Evaluation | None:
    """Put averaged weights into the model and validate them; None unless they are better."""
    best = trainer.state.best_score or 0.0
    device = trainer.runtime.device
    weights = {name: tensor.to(device) for name, tensor in mean_weights(snapshots).items()}
    trainer.model.load_state_dict(weights)
    trainer.model.eval()
    mean = evaluate()
    verdict = "better" if mean.score > best else "no better"
    progress.say(
        f"the mean of the last {len(snapshots)} validations' weights is {verdict} than the best: "
        f"{mean.note}"
    )
    return mean if mean.score > best else None
