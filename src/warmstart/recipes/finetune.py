"""Pretrained base and labels -> classifier: warm, frozen or cold.

Knows the order of things; each step is done elsewhere.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.data.labelled import LabelledTexts
from warmstart.data.overlap import Fingerprints
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.report.card import model_card
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    check_length,
    check_unchanged,
    file_facts,
    opened,
    refuse_overrides,
    refuse_together,
    write_config,
)
from warmstart.runs.lineage import ancestry
from warmstart.runs.saved import Source
from warmstart.runtime import choose_runtime
from warmstart.settings.model import (
    ModelConfig,
    apply_overrides,
    model_from_json,
    preset_named,
)
from warmstart.settings.training import FinetuneConfig
from warmstart.tasks.classify import (
    Examples,
    build_classifier,
    epochs_of,
    examples_of,
    fit_classifier,
    read_base,
)
from warmstart.tasks.labelled import (
    ClassData,
    as_the_tokenizer_reads,
    check_same_form,
    class_names,
    count_classes,
    describe_encoding,
    number_classes,
    read_class_file,
)
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from warmstart.training.defaults import finetuning_rate
from warmstart.training.trainer import State


@dataclass(frozen=True)
class FinetuneResult:
    """What a fine-tuning run came to."""

    run: Path
    accuracy: float  # on validation, at the best epoch
    f1: float
    best_epoch: int
    elapsed_s: float


def finetune(config: FinetuneConfig) -> FinetuneResult:
    """Train a classifier on labelled texts and write a run folder."""
    with opened("finetune", config, config.out, config.resume) as run:
        if run.is_finished:
            progress.say(f"{run.path} is finished already; nothing to do")
            return _result(run)
        if config.frozen and not config.from_run:
            raise WarmstartError("--frozen needs --from: a base without pretraining stays random")
        train = read_class_file(config.train, config.train_labels, config.columns)
        valid = read_class_file(config.valid, config.valid_labels, config.columns)
        check_same_form(train, valid)
        names = class_names(train)
        runtime = choose_runtime(config.device, config.precision, config.threads)
        parent = read_base(config.from_run) if config.from_run else None
        tokenizer = parent.tokenizer if parent else _cold_tokenizer(config, train, run)
        if run.data_file.exists():
            check_unchanged(run.read_json(run.data_file))
            shape = model_from_json(run.config()["model"])
        else:
            shape = _shape(config, tokenizer, parent)
        data = [
            number_classes(as_the_tokenizer_reads(split, tokenizer, config.pieces), names)
            for split in (train, valid)
        ]
        weights = parent.weights if parent else None
        model, fate = build_classifier(
            shape, len(names), config, config.seed, weights, config.frozen
        )
        arm = "frozen" if config.frozen else ("warm" if parent else "cold")
        _describe(data, names, arm, fate)
        learn, judge = (_examples(split, tokenizer, shape, config) for split in data)
        if not run.data_file.exists():  # written last: what comes before it is whole
            more = {"kind": "classifier", "classes": list(names), "arm": arm}
            is_pair = train.seconds is not None
            write_config(run, "finetune", config, shape, **more, pairs=is_pair)
            tokenizer.save(run.path)
            write_json(run.data_file, _facts(config, data, parent))
        rate = config.learning_rate or finetuning_rate(shape, arm)
        _, state = fit_classifier(
            model,
            learn,
            judge,
            config,
            rate,
            config.seed,
            tokenizer.pad,
            runtime,
            arm,
            run,
            config,
        )
        _finish(config, run, state, arm, names, sum(p.numel() for p in model.parameters()))
        return _result(run)


def _cold_tokenizer(config: FinetuneConfig, train: LabelledTexts, run: RunFolder) -> Tokenizer:
    if run.data_file.exists():
        return load_tokenizer(run.path)
    refuse_together(config, "tokenizer", ("vocab_size",))
    if config.tokenizer:
        return load_tokenizer(Path(config.tokenizer))
    size = config.vocab_size or preset_named(config.preset).vocab_size
    progress.say("training a tokenizer on the labelled texts, the only text a cold start has")
    return train_tokenizer((*train.texts, *(train.seconds or ())), "bpe", size)


def _shape(config: FinetuneConfig, tokenizer: Tokenizer, parent: Source | None) -> ModelConfig:
    if parent:
        refuse_overrides(config, allowed=("dropout", "max_length"))
        refuse_together(config, "from", ("tokenizer", "vocab_size"))
        check_length(parent.model, config.max_length, parent.path)
        return apply_overrides(parent.model, config)
    return replace(
        apply_overrides(preset_named(config.preset), config), vocab_size=tokenizer.vocab_size
    )


def _describe(data: list[ClassData], names: tuple[str, ...], arm: str, fate: object) -> None:
    counts = count_classes(data[0], names)
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    noun = "texts" if data[0].seconds is None else "pairs"
    progress.say(
        f"{len(data[0].texts):,} {noun} to train on ({shown}), "
        f"{len(data[1].texts):,} to validate with"
    )
    if fate:
        progress.say(f"{arm}: {fate}")


def _examples(
    data: ClassData, tokenizer: Tokenizer, shape: ModelConfig, config: FinetuneConfig
) -> Examples:
    encoded = data.encode(tokenizer, shape.max_length, config.truncate)
    progress.say(describe_encoding(data.file, encoded, shape.max_length, config.truncate))
    return examples_of(encoded, data.classes)


def _facts(config: FinetuneConfig, data: list[ClassData], parent: Source | None) -> dict[str, Any]:
    seen = Fingerprints()
    for text in data[0].readable(config.pieces):
        seen.add(text)
    rows: dict[Path, int] = {}
    for split, labels in zip(data, (config.train_labels, config.valid_labels), strict=True):
        rows |= {Path(file): len(split.texts) for file in (split.file, labels) if file}
    return {
        "files": file_facts(rows),
        "fingerprints": seen.to_text(),
        "before": ancestry(parent),
    }


def _finish(
    config: FinetuneConfig,
    run: RunFolder,
    state: State,
    arm: str,
    names: tuple[str, ...],
    parameters: int,
) -> None:
    epochs = epochs_of(state)
    best = max(range(len(epochs)), key=lambda i: state.evaluations[i]["step"] == state.best_step)
    chosen = epochs[best]
    valid = {"accuracy": chosen.valid_accuracy, "f1": chosen.valid_f1, "loss": chosen.valid_loss}
    card = model_card(
        run.path.name,
        "text-classification",
        f"A text classifier ({arm} start) trained with warmstart on {len(names)} classes: "
        f"{', '.join(names)}.",
        {"parameters": parameters, "start": arm, "from": config.from_run or "scratch"},
        {**valid, "best epoch": chosen.epoch},
        [f"warmstart predict {run.path} texts.txt"],
    )
    write_whole(run.path / "README.md", card.encode())
    run.finish({"valid": {**valid, "epoch": chosen.epoch}, "elapsed_s": state.elapsed_s})


def _result(run: RunFolder) -> FinetuneResult:
    scores = run.read_json(run.scores_file)
    valid = scores["valid"]
    return FinetuneResult(
        run.path, valid["accuracy"], valid["f1"], valid["epoch"], scores["elapsed_s"]
    )
