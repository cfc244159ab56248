"""Sentence pairs -> translator.

Knows the order of things; each step is done elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.batching.pair_batches import EncodedPairs, PairStream
from warmstart.data.overlap import Fingerprints
from warmstart.data.pairs import Pairs
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.model.models import Translator
from warmstart.objectives.translate import Translate
from warmstart.recipes.tongues import (
    Tongues,
    choose_tongues,
    encode_pairs,
    read_split,
    read_tongues,
)
from warmstart.recipes.translation_judge import Judge
from warmstart.report.card import model_card
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    check_length,
    check_unchanged,
    file_facts,
    opened,
    refuse_overrides,
    write_config,
)
from warmstart.runs.lineage import ancestry
from warmstart.runs.saved import IN_WORDS, Source, read_source
from warmstart.runs.transfer import transfer_all
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.model import ModelConfig, apply_overrides, model_from_json, preset_named
from warmstart.settings.translation import DEFAULT_PRESET, TrainTranslatorConfig
from warmstart.training.averaging import averaged, keep_snapshot, list_snapshots
from warmstart.training.defaults import seed_weights, translation_rate
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.schedules import warmup_cosine, warmup_inverse_sqrt
from warmstart.training.trainer import Evaluation, LoopSettings, State, Trainer

EPOCHS = 30


@dataclass(frozen=True)
class TranslatorResult:
    """What training a translator came to."""

    run: Path
    bleu: float  # greedy, on validation, of the weights that were kept
    loss: float
    step: int  # at which they were reached; the last one where weights were averaged
    averaged: int  # how many validations' weights they are the mean of
    elapsed_s: float


def train_translator(config: TrainTranslatorConfig) -> TranslatorResult:
    """Train a translator on sentence pairs and write a run folder."""
    with opened("train-translator", config, config.out, config.resume) as run:
        if run.is_finished:
            progress.say(f"{run.path} is finished already; nothing to do")
            return _result(run)
        train, valid = read_split(config, ""), read_split(config, "valid_")
        runtime = choose_runtime(config.device, config.precision, config.threads)
        parent = _parent(config.from_run) if config.from_run else None
        if run.data_file.exists():
            check_unchanged(run.read_json(run.data_file))
            shape, tongues = model_from_json(run.config()["model"]), read_tongues(run)
        else:
            tongues = choose_tongues(config, train, parent)
            shape = _shape(config, tongues, parent)
        learn, judge = (encode_pairs(pairs, tongues, shape.max_length) for pairs in (train, valid))
        seed_weights(config.seed, "translator")
        model = Translator(shape)
        if parent:
            _warm_start(model, parent)
        if not run.data_file.exists():  # written last: what comes before it is whole
            write_config(run, "train-translator", config, shape, kind="translator")
            tongues.save(run)
            write_json(run.data_file, _facts(train, valid, parent))
        model.to(runtime.device)
        judging = Judge(judge, valid, tongues, config.micro_tokens, config.select, config.samples)
        trainer = _trainer(config, model, learn, judging, runtime, run)
        state = trainer.train("training")
        _finish(config, run, trainer, state, lambda: judging(model, runtime))
        return _result(run)


def _parent(path: str) -> Source:
    """Return the run to start from, if its base can be an encoder."""
    parent = read_source(path)
    if parent.kind not in ("masked", "base") or parent.model.attention != "bidirectional":
        raise WarmstartError(
            f"--from {path} is {IN_WORDS[parent.kind]}; an encoder is warm-started from a "
            "base that sees both sides, as `warmstart pretrain --objective masked` makes"
        )
    return parent


def _shape(config: TrainTranslatorConfig, tongues: Tongues, parent: Source | None) -> ModelConfig:
    """Return the shape asked for; a warm-started encoder keeps its own, but for a few words."""
    preset = preset_named(config.preset or DEFAULT_PRESET)
    if parent:
        refuse_overrides(config, allowed=("dropout", "max_length"))
        check_length(parent.model, config.max_length, parent.path)
        base = replace(parent.model, attention="bidirectional", pooler=False)
    else:
        base = replace(preset, attention="bidirectional")
    given = 0 if parent else preset.decoder_depth
    depth = config.decoder_depth or given or base.depth
    target_size = 0 if tongues.is_joint else tongues.target.vocab_size
    shared = tongues.is_joint if config.shared is None else config.shared
    return replace(
        apply_overrides(base, config),
        vocab_size=parent.model.vocab_size if parent else tongues.source.vocab_size,
        decoder_depth=depth,
        target_vocab_size=target_size,
        shared=shared,
    )


def _warm_start(model: Translator, parent: Source) -> None:
    weights = {
        name.replace("backbone.", "encoder.", 1): tensor
        for name, tensor in parent.weights.items()
        if name.startswith("backbone.") and ".pooler." not in name
    }
    fate = transfer_all(weights, model)
    lacking = [name for name in fate.new if name.startswith("encoder.")]
    if lacking:
        raise WarmstartError(f"{parent.path}: its weights lack {', '.join(lacking[:3])}")
    progress.say(f"encoder from {parent.path}: {len(fate.loaded)} tensors loaded, the rest is new")


def _facts(train: Pairs, valid: Pairs, parent: Source | None) -> dict[str, Any]:
    seen = Fingerprints()
    for text in (*train.sources, *train.targets):
        seen.add(text)
    rows = {Path(file): len(pairs) for pairs in (train, valid) for file in pairs.files}
    return {
        "files": file_facts(rows),
        "rows": len(train),
        "skipped": train.skipped,
        "fingerprints": seen.to_text(),
        "before": ancestry(parent),
    }


def _trainer(
    config: TrainTranslatorConfig,
    model: Translator,
    learn: EncodedPairs,
    judge: Judge,
    runtime: Runtime,
    run: RunFolder,
) -> Trainer:
    pads = (judge.tongues.source.pad, judge.tongues.target.pad)
    stream = PairStream(learn, config.batch_tokens, config.micro_tokens, *pads, config.seed)
    steps = config.steps or (config.epochs or EPOCHS) * stream.steps_per_epoch
    eval_every = config.eval_every or stream.steps_per_epoch
    rate = config.learning_rate or translation_rate(model.config, config.optimizer)
    schedules = {"cosine": warmup_cosine, "inverse-sqrt": warmup_inverse_sqrt}
    if config.compile:
        model.encoder.compile(dynamic=True)
        model.decoder.compile(dynamic=True)

    def evaluate() -> Evaluation:
        if config.average > 1:
            keep_snapshot(run, model, trainer.state.step, config.average)
        return judge(model, runtime)

    trainer = Trainer(
        model,
        Translate(config.label_smoothing),
        stream,
        build_optimizers(model, OptimizerSettings(config.optimizer, rate, config.weight_decay)),
        schedules[config.schedule](steps, config.warmup),
        evaluate,
        LoopSettings(
            steps=steps,
            clip=config.clip,
            seed=config.seed,
            eval_every=eval_every,
            log_every=config.log_every,
            save_every=config.save_every,
            save_s=60 * config.save_minutes,
            keep=config.keep,
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
    best = next(e for e in state.evaluations if e["step"] == state.best_step)
    chosen = {"loss": best["valid_loss"], "bleu": best["valid_bleu"], "step": state.best_step}
    averaged = 1
    files = list_snapshots(run, state.step)[-config.average :]
    if config.average > 1 and len(files) > 1:
        mean = _judge_average(trainer, files, evaluate)
        if mean:
            averaged = len(files)
            chosen = {
                "loss": mean.figures["valid_loss"],
                "bleu": mean.figures["valid_bleu"],
                "step": state.step,
            }
            save_weights(run.weights_file, trainer.model)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    card = model_card(
        run.path.name,
        "translation",
        "An encoder-decoder Transformer trained with warmstart to translate.",
        {"parameters": parameters, "pairs": run.read_json(run.data_file)["rows"]},
        {"BLEU, greedy": chosen["bleu"], "loss": chosen["loss"]},
        [f"warmstart translate {run.path} sentences.txt"],
    )
    write_whole(run.path / "README.md", card.encode())
    run.finish({"valid": {**chosen, "averaged": averaged}, "elapsed_s": state.elapsed_s})
    run.drop_snapshots()


def _judge_average(
    trainer: Trainer, files: Sequence[Path], evaluate: Callable[[], Evaluation]
) -> Evaluation | None:
    """Put averaged weights into the model and judge them; None unless they are better."""
    best = trainer.state.best_score or 0.0
    device = trainer.runtime.device
    weights = {name: tensor.to(device) for name, tensor in averaged(files).items()}
    trainer.model.load_state_dict(weights)
    trainer.model.eval()
    mean = evaluate()
    said = "better" if mean.score > best else "no better"
    progress.say(
        f"the mean of the last {len(files)} validations' weights is {said} than the best: "
        f"{mean.note}"
    )
    return mean if mean.score > best else None


def _result(run: RunFolder) -> TranslatorResult:
    scores = run.read_json(run.scores_file)
    valid = scores["valid"]
    return TranslatorResult(
        run.path,
        valid["bleu"],
        valid["loss"],
        valid["step"],
        valid["averaged"],
        scores["elapsed_s"],
    )
