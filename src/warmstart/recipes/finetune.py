"""Labelled texts -> fine-tuned model: warm, frozen or cold."""

import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import HALVING_SEED, LabelPool, nested_rows
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.formats import duration, quantity
from warmstart.model.backbone import recompute_activations
from warmstart.recipes.card import write_card
from warmstart.recipes.teachers import add_taught
from warmstart.report.html import Shown
from warmstart.report.training_figure import score_table
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.facts import Figures, UnreadRows
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    announce,
    check_length,
    check_unchanged,
    refuse_overrides,
    refuse_together,
    write_config,
)
from warmstart.runs.saved import SavedRun, lineage_of, read_data, recorded_model, resumed_model
from warmstart.runtime import Runtime
from warmstart.settings.model import DEFAULT_PRESETS, ModelConfig, apply_overrides, preset_named
from warmstart.settings.shared import Truncate
from warmstart.settings.training import FinetuneConfig
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.tasks.fitting import Start, build_model, build_trainer
from warmstart.tasks.frozen import FrozenVectors
from warmstart.tasks.hub import HubModel, say_not_exportable
from warmstart.tasks.labelled_data import (
    for_tokenizer,
    read_training_texts,
    readable_rows,
)
from warmstart.tasks.registry import choose_task, finetuning_task, load, read_backbone
from warmstart.tasks.text_model import TextModel
from warmstart.textfiles import file_facts
from warmstart.tokenization.backends import load_tokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import finetuning_layer_decay, finetuning_length, finetuning_rate
from warmstart.training.length import Clock, set_length
from warmstart.training.opening import open_training, training_runtime
from warmstart.training.record import Record
from warmstart.training.trainer import Trainer

FEW_LABELS = 200  # of so few, the share that validates is missed in training


@dataclass(frozen=True)
class FinetuneResult(Shown):
    """The outcome of a fine-tuning run."""

    run: Path
    valid: dict[str, float]  # validation scores at the best epoch
    summary: str  # the scores in one phrase
    best_epoch: int
    elapsed_s: float
    unread: UnreadRows = UnreadRows()  # what was not read, or not as a whole
    scored_labels: int | None = None  # of the model with these scores; the kept one learned all

    def pieces(self) -> list[str]:
        best = f"at epoch {self.best_epoch}, in {duration(self.elapsed_s)}"
        notes = [f"{self.unread}."] if str(self.unread) else []
        notes += [f"T{self.remark[1:]}."] if self.remark else []
        return [f"{self.run}: {self.summary} {best}.", *notes, score_table(self.valid)]

    @property
    def remark(self) -> str:
        """Say which model has the scores, if it is not the one that is kept."""
        if not self.scored_labels:
            return ""
        texts = quantity(self.scored_labels, "labelled text")
        return f"these scores are of a model trained on {texts}; the one that is kept learned all"

    @cached_property
    def model(self) -> TextModel:
        """Return the trained model, ready to predict."""
        return load(self.run)

    @property
    def accuracy(self) -> float:
        """Return the validation accuracy of a classifier."""
        return self.valid["accuracy"]


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Train a model on labelled texts and write a run folder."""
    config = choose_task(config)
    task = finetuning_task(config.task)
    config, clock = task.choose_truncation(config), Clock(config.minutes)
    with open_training("finetune", config) as run:
        if not run.is_finished:
            _train(config, run, clock)
    return _result(run, task)


def resolve(
    config: FinetuneConfig, run: RunFolder | None, parent: SavedRun | None, device: str
) -> FinetuneConfig:
    """Return the settings with every default that is known before the texts are read.

    A resumed run keeps the architecture it was started with; `run` is None without a folder.
    """
    if config.frozen and not parent:
        raise WarmstartError("--frozen needs --from: a backbone from scratch would stay random")
    task = finetuning_task(config.task)
    config = task.choose_truncation(config)
    config = replace(config, preset=config.preset or (None if parent else DEFAULT_PRESETS[device]))
    model = recorded_model(run) or finetuning_architecture(config, parent)
    arm = "cold" if not parent else "frozen" if config.frozen else "warm"
    return replace(
        config,
        max_length=model.max_length,
        learning_rate=config.learning_rate or finetuning_rate(model, arm),
        layer_decay=config.layer_decay or task.layer_decay or finetuning_layer_decay(arm),
    )


def finetuning_architecture(config: FinetuneConfig, parent: SavedRun | None) -> ModelConfig:
    """Return the architecture asked for; a warm start keeps that of its backbone.

    Without a parent, the vocabulary has the size that a tokenizer would be trained to.
    """
    if not parent:
        refuse_together(config, "tokenizer", ("vocab_size",))
        model = apply_overrides(preset_named(config.preset or ""), config)
        attention = finetuning_task(config.task).attention or model.attention
        return replace(model, vocab_size=config.vocab_size or model.vocab_size, attention=attention)
    refuse_overrides(config, allowed=("dropout", "max_length"))
    refuse_together(config, "from", ("tokenizer", "vocab_size"))
    check_length(parent.model, config.max_length, parent.path)
    model = replace(parent.model, max_length=finetuning_length(parent.model))
    return apply_overrides(model, config)


def _train(given: FinetuneConfig, run: RunFolder, clock: Clock) -> None:
    """Train the model of an unfinished run."""
    parent = read_backbone(given.from_run) if given.from_run else None
    runtime = training_runtime(given)
    config = resolve(given, run, parent, runtime.kind)
    prepared = _prepare(given, config, run, parent, runtime)
    trainer, fit = prepared.trainer, prepared.fit
    trainer.restore()
    recorded = run.config()  # before the lead process changes it
    trainer.meet()
    task = finetuning_task(config.task)
    if config.frozen and task.solves_heads and not config.learns_shares:
        if not run.is_read_only:
            _solve(run, task, prepared)
        return
    if config.checkpoint_activations:
        recompute_activations(trainer.model)
    if config.shard:
        trainer.shard()
    set_length(trainer, given, recorded, clock, trainer.settings.steps)
    announce(
        run,
        given,
        learning_rate=fit.learning_rate,
        batch_size=config.batch_size,
        steps=trainer.settings.steps,
        max_length=config.max_length or 0,
    )
    trainer.train(fit.title)
    if not run.is_read_only:
        _finish(run, task, prepared)


@dataclass(frozen=True)
class Prepared:
    """A training that can begin."""

    trainer: Trainer
    fit: Fit
    start: Start
    train: Dataset  # the texts, of which the fit may have several rows each
    config: FinetuneConfig

    @property
    def wastes_labels(self) -> bool:
        """Tell whether few labels were given, and some of them set aside to validate on."""
        config, num_labels = self.config, len(self.train) + len(self.fit.valid)
        is_set_aside = not (config.valid or config.teacher or config.minutes)
        is_simple = config.keep_epoch == "last" and not self.trainer.processes.is_shared
        return is_set_aside and is_simple and num_labels <= FEW_LABELS

    def on_all_labels(self, task: FinetuningTask, outputs: NDArray[Any]) -> Fit:
        """Return the fit to all labels; what calibrates the model that validated stays."""
        fit = self.fit
        labelled = join_datasets([self.train, fit.valid])
        rows = task.training_rows(labelled, fit.labels, self.start.model.max_length)
        progress.say(f"training once more, on all {quantity(len(labelled), 'labelled text')}")
        return replace(
            fit,
            train=rows,
            temperature=task.temperature(outputs, fit.valid.targets),
            title="training on all labels",
        )

    def taken(self) -> dict[str, int]:
        """Return what is noted of a model that learned all labels, beside another's scores."""
        num_scored = len(self.train)
        num_labels = num_scored + len(self.fit.valid)
        taken = {"labels": num_labels, "trained_on": num_labels, "scored_labels": num_scored}
        return {**taken, "seed": self.fit.seed}


def _prepare(
    given: FinetuneConfig,
    config: FinetuneConfig,
    run: RunFolder,
    parent: SavedRun | None,
    runtime: Runtime,
) -> Prepared:
    """Read the texts, write what the run records of them, and build the trainer."""
    task = finetuning_task(config.task)
    texts = read_training_texts(config, task)
    labels = task.read_labels(texts[0])
    texts = take_labels(*texts, task, labels, config)
    for note in task.label_notes(*texts):
        progress.say(note)
    if config.teacher:
        texts = add_taught(config, parent, task, labels, *texts), texts[1]
    tokenizer = parent.tokenizer if parent else _cold_tokenizer(config, texts[0], run)
    train, valid = (for_tokenizer(split, tokenizer, config.pieces) for split in texts)
    train, valid = (replace(s, targets=task.targets(s, labels)) for s in (train, valid))
    architecture = _architecture(config, run, tokenizer, parent)
    start = Start(architecture, parent.weights if parent else None, config.frozen)
    model, transfer = build_model(task, start, labels, config, config.seed)
    _say_data(train, valid, task.describe_data(train.targets, labels))
    if transfer:
        progress.say(f"{start.arm}: {transfer}")
    rule = config.truncate or task.truncate
    train, valid = (_encode(s, task, tokenizer, architecture, rule) for s in (train, valid))
    if config.valid:
        _warn_of_shared(train, valid, config)
    if not run.data_file.exists():  # written last: everything before it is complete
        facts = {"task": task.name, **labels, "arm": start.arm, "pairs": train.seconds is not None}
        write_config(run, "finetune", given, architecture, **facts)
        tokenizer.save(run.path)
        write_json(run.data_file, _facts(config, train, valid, parent))
        num_classes = task.num_outputs(labels)
        hub = HubModel(
            model=architecture, task=task, pooling=config.pooling, num_classes=num_classes
        )
        say_not_exportable(str(run.path), hub.problem)
    rate, decay = config.learning_rate or 0.0, config.layer_decay or 1.0
    seed, pad = config.seed, tokenizer.pad
    rows = task.training_rows(train, labels, architecture.max_length)
    fit = Fit(rows, valid, labels, config, rate, decay, seed, pad, runtime, start.arm)
    return Prepared(build_trainer(task, model, fit, run, config), fit, start, train, config)


def take_labels(
    train: Dataset, valid: Dataset, task: FinetuningTask, labels: Labels, config: FinetuneConfig
) -> tuple[Dataset, Dataset]:
    """Return as many texts as `--labels` asks for: those that a comparison takes with this seed."""
    if config.labels is None:
        return train, valid
    strata = [task.strata(task.targets(split, labels)) for split in (train, valid)]
    pool = LabelPool(len(train), None if config.valid else len(valid))
    pool.check(config.labels, len(set(strata[0])) if task.has_classes else 1, train.file)
    num_train, num_valid = pool.divide(config.labels)
    train = train.subset(nested_rows(strata[0], config.seed)[:num_train])
    if num_valid is not None:
        valid = valid.subset(nested_rows(strata[1], HALVING_SEED)[:num_valid])
    return train, valid


def _cold_tokenizer(config: FinetuneConfig, train: Dataset, run: RunFolder) -> Tokenizer:
    if run.data_file.exists():
        return load_tokenizer(run.path)
    if config.tokenizer:
        return load_tokenizer(Path(config.tokenizer))
    size = finetuning_architecture(config, None).vocab_size
    progress.say("training a tokenizer on the labelled texts, the only text a cold start has")
    return train_tokenizer((*train.texts, *(train.seconds or ())), "bpe", size)


def _architecture(
    config: FinetuneConfig, run: RunFolder, tokenizer: Tokenizer, parent: SavedRun | None
) -> ModelConfig:
    """Return the architecture with the tokenizer's vocabulary, or that of a resumed run."""
    if run.data_file.exists():
        check_unchanged(run)
        return resumed_model(run)
    model = finetuning_architecture(config, parent)
    return model if parent else replace(model, vocab_size=tokenizer.vocab_size)


def _warn_of_shared(train: Dataset, valid: Dataset, config: FinetuneConfig) -> None:
    """Warn of validation texts that are also trained on."""
    trained, held_out = (fingerprints_of(readable_rows(t, config.pieces)) for t in (train, valid))
    num_shared = int(find_matches(held_out, trained).both.sum())
    if num_shared:
        progress.say(
            f"warning: {num_shared:,} of {len(valid):,} texts in {valid.file} also occur, exactly "
            f"or nearly, in {train.file}, so validation scores are too good"
        )


def _say_data(train: Dataset, valid: Dataset, described: str) -> None:
    noun = "texts" if train.seconds is None else "pairs"
    details = f" ({described})" if described else ""
    progress.say(f"{len(train):,} {noun} to train on{details}, {len(valid):,} to validate with")


def _encode(
    data: Dataset,
    task: FinetuningTask,
    tokenizer: Tokenizer,
    model: ModelConfig,
    rule: Truncate,
) -> Dataset:
    encoded, sentence = task.encode(data, tokenizer, model, rule)
    progress.say(sentence)
    return encoded


def _facts(
    config: FinetuneConfig, train: Dataset, valid: Dataset, parent: SavedRun | None
) -> dict[str, Any]:
    seen, held_out = (fingerprints_of(readable_rows(t, config.pieces)) for t in (train, valid))
    parts = (train, valid) if config.valid else (train,)  # else both have the counts of one file
    unread = UnreadRows(
        without_text=sum(part.skipped for part in parts),
        without_label=sum(part.unlabelled for part in parts),
        truncated=sum(map(sum, (train.is_truncated, valid.is_truncated))),
    )
    return {
        "files": file_facts({**train.files, **valid.files}),
        "unread": asdict(unread),
        "fingerprints": seen.to_json(),
        "validated": held_out.to_json(),
        "lineage": lineage_of(parent),
    }


def _solve(run: RunFolder, task: FinetuningTask, prepared: Prepared) -> None:
    """Solve for the head of a frozen backbone in place of a training, and finish the run."""
    started, known = time.monotonic(), FrozenVectors()
    fit, model = prepared.fit, prepared.trainer.model
    head = task.solve_head(model, fit, [fit.tuning.pooling], known)
    setting = task.describe_head(head.number)
    progress.say(f"frozen: the head is solved for, without epochs: {head.method}, {setting}")
    model.eval()
    outputs = task.outputs(model, fit.valid, fit.batches)
    evaluation = task.validate(model, outputs, fit)
    with closing(Record(run, 0)) as record:
        record.add(1, evaluation.figures)
    valid = {name.removeprefix("valid_"): value for name, value in evaluation.figures.items()}
    interval = task.valid_interval(valid, len(fit.valid))
    scores: dict[str, Any] = {"valid": {**valid, **interval, "epoch": 1}}
    if prepared.wastes_labels:
        again = prepared.on_all_labels(task, outputs)
        task.solve_head(model, again, [fit.tuning.pooling], FrozenVectors())
        outputs = task.outputs(model.eval(), fit.valid, fit.batches)
        evaluation = task.validate(model, outputs, again)
        scores |= prepared.taken()
    save_weights(run.weights_file, {**model.state_dict(), **evaluation.weights})
    scores["elapsed_s"] = time.monotonic() - started
    write_card(run, scores)
    run.finish(scores)


def _finish(run: RunFolder, task: FinetuningTask, prepared: Prepared) -> None:
    """Write the model card and the scores, which mark the run as finished."""
    started, fit, state = time.monotonic(), prepared.fit, prepared.trainer.state
    best = state.best_scores()
    interval = task.valid_interval(best, len(fit.valid))
    scores: dict[str, Any] = {
        "valid": {**best, **interval, "epoch": fit.epoch_of(state.best_step)},
        "faults": state.faults,
        "overflows": state.overflows,
    }
    if prepared.wastes_labels:
        seen: list[NDArray[Any]] = []
        task.training(prepared.trainer.model.eval(), replace(fit, watch=seen.append)).evaluate()
        again = prepared.on_all_labels(task, seen[0])
        model, _ = build_model(task, prepared.start, fit.labels, fit.tuning, fit.seed)
        if prepared.config.checkpoint_activations:
            recompute_activations(model)
        build_trainer(task, model, again).train(again.title)
        evaluation = task.training(model.eval(), again).evaluate()
        save_weights(run.weights_file, {**model.state_dict(), **evaluation.weights})
        scores |= prepared.taken()
    scores["elapsed_s"] = state.elapsed_s + time.monotonic() - started
    write_card(run, scores)
    run.finish(scores)


def _result(run: RunFolder, task: FinetuningTask) -> FinetuneResult:
    valid = run.valid_scores()
    epoch = int(valid["epoch"])
    figures = {name: score for name, score in valid.items() if name != "epoch"}
    scores = Figures(figures, valid.file)  # the error for a missing score names the file
    saved, unread = run.scores(), read_data(run).unread
    summary, elapsed_s = task.summary(scores), saved.elapsed_s
    return FinetuneResult(run.path, scores, summary, epoch, elapsed_s, unread, saved.scored_labels)
