"""The labelled texts of a comparison: train, validation and perhaps test, or folds of them all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from warmstart import progress
from warmstart.data.labelled import LabelledTexts
from warmstart.data.splits import Fold, describe_labels, set_aside, split_folds
from warmstart.experiments.arms import ArmSplit, Splits
from warmstart.experiments.subsets import (
    HALVING_SEED,
    LabelPool,
    nested_rows,
    selections,
    subset_sizes,
)
from warmstart.formats import counted
from warmstart.remotefiles import local_name
from warmstart.results.comparison import SplitName
from warmstart.settings.finetuning import CompareConfig
from warmstart.tasks.classify import class_names, class_numbers
from warmstart.tasks.labelled_data import (
    TrainingTexts,
    check_same_form,
    read_all_texts,
    read_labelled_file,
    read_training_texts,
    readable_rows,
)

HELD_OUT: tuple[SplitName, ...] = get_args(SplitName)


@dataclass(frozen=True)
class ExperimentTexts:
    """The texts by split: train, validation and perhaps test, or one split for all folds."""

    data: dict[str, LabelledTexts]  # the texts that models are trained on come first
    files: dict[Path, int]  # every file that was read, with its rows
    pool: LabelPool  # of each fold
    notes: list[str]
    folds: tuple[Fold, ...] = ()  # of a cross-validation

    @property
    def training(self) -> LabelledTexts:
        """Return the texts that models are trained on."""
        return next(iter(self.data.values()))

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return class_names(self.training)

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """Return the names of the splits that models predict."""
        return tuple(name for name in HELD_OUT if name in self.data)

    def class_numbers(self, split: LabelledTexts) -> list[int]:
        """Return the true classes of a split."""
        return class_numbers(split, self.classes)

    def joined(self, trains_on_all: bool) -> "ExperimentTexts":
        """Return the texts of all folds as one part, with a share to validate on.

        It is set aside, or trained on too: then scores on it say nothing.
        """
        train, valid = set_aside(self.training)
        pool = LabelPool(len(train), len(valid))
        if trains_on_all:
            train, pool = self.training, LabelPool(len(self.training), None)
        return ExperimentTexts({"train": train, "validation": valid}, self.files, pool, self.notes)

    def parts(self, read: Mapping[str, ArmSplit]) -> tuple[Splits, ...]:
        """Return what the models of each fold read, given what an arm reads of each split."""
        if not self.folds:
            return (Splits(read["train"], read["validation"], read.get("test")),)
        texts = read["cross-validation"]
        return tuple(
            Splits(texts.subset(fold.train), texts.subset(fold.valid), texts.subset(fold.test))
            for fold in self.folds
        )

    def show(self, parts: tuple[Splits, ...], row: int | None) -> tuple[Splits, ...]:
        """Record the attention on one of the scored texts, by the models that it tests."""
        if not self.folds:
            return tuple(replace(part, attention_row=row) for part in parts)
        return tuple(
            replace(part, attention_row=fold.test.index(row) if row in fold.test else None)
            for part, fold in zip(parts, self.folds, strict=True)
        )


def read_texts(config: CompareConfig) -> ExperimentTexts:
    """Read the labelled files; refuse what cannot be compared before anything is trained."""
    texts = _read_folds(config, config.folds) if config.folds else _read_splits(config)
    for split in texts.data.values():
        texts.class_numbers(split)  # refuses unknown labels
    for note in texts.notes:
        progress.say(note)
    return texts


def _read_splits(config: CompareConfig) -> ExperimentTexts:
    texts = read_training_texts(config)
    pool = LabelPool(len(texts.train), None if config.valid else len(texts.valid))
    if config.test and not config.valid:
        texts = replace(texts, valid=_paid(config, pool, texts))
    data, files = {"train": texts.train, "validation": texts.valid}, texts.files
    if config.test:
        test = local_name(config.test)
        data["test"] = read_labelled_file(test, config.test_labels, config)
        given = filter(None, (test, config.test_labels))
        files |= {Path(file): len(data["test"]) for file in given}
    check_same_form(*data.values())
    selections(range(len(texts.valid)), "test" in data)  # refuses a single text
    notes = describe_labels(texts.train, texts.valid)
    if config.valid:
        notes.append(f"settings are chosen on {len(texts.valid):,} labels of {config.valid}, too")
    return ExperimentTexts(data, files, pool, notes)


def _paid(config: CompareConfig, pool: LabelPool, texts: TrainingTexts) -> LabelledTexts:
    """Return the validation texts that are among the labels of the largest subset.

    Others would only be looked at, which can take longer than the training.
    """
    classes = class_names(texts.train)
    _, num = pool.divide(subset_sizes(config, pool, len(classes))[-1])
    rows = nested_rows(class_numbers(texts.valid, classes), HALVING_SEED)
    return texts.valid.subset(sorted(rows[:num]))


def _read_folds(config: CompareConfig, num_folds: int) -> ExperimentTexts:
    texts, files = read_all_texts(config)
    split = split_folds(texts, readable_rows(texts, config.pieces), num_folds, config.seed)
    notes = describe_labels(texts, texts)
    least = min(len(fold.test) for fold in split.folds)
    note = f"{num_folds} folds of at least {counted(least, 'text')}, the same share of every class"
    if split.num_copies:
        note += f"; {split.num_copies:,} texts have copies or near-copies, each in the same fold"
    notes.append(note)
    pool = LabelPool(
        min(len(fold.train) for fold in split.folds), min(len(fold.valid) for fold in split.folds)
    )
    return ExperimentTexts({"cross-validation": texts}, files, pool, notes, split.folds)
