"""The labelled texts of a comparison: read, split or in folds, before an arm reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from warmstart import progress
from warmstart.comparison.arms import Splits
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.results import SplitName
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import (
    HALVING_SEED,
    Fold,
    LabelPool,
    proportional_rows,
    selections,
    set_aside,
    split_folds,
)
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.remotefiles import local_name
from warmstart.tasks.finetuning import FinetuningTask, Labels
from warmstart.tasks.labelled_data import (
    check_same_form,
    read_all_texts,
    read_labelled_file,
    read_training_texts,
    readable_rows,
)
from warmstart.tasks.registry import choose_task, finetuning_task

HELD_OUT: tuple[SplitName, ...] = get_args(SplitName)


@dataclass(frozen=True)
class ExperimentTexts:
    """The texts by split: train, validation and perhaps test, or one split for all folds."""

    task: FinetuningTask
    labels: Labels
    data: dict[str, Dataset]  # the texts that models are trained on come first
    pool: LabelPool  # of each fold
    notes: list[str]
    folds: tuple[Fold, ...] = ()  # of a cross-validation

    @property
    def training(self) -> Dataset:
        """Return the texts that models are trained on."""
        return next(iter(self.data.values()))

    @property
    def files(self) -> dict[Path, int]:
        """Return every file that was read, with its rows."""
        return {file: rows for data in self.data.values() for file, rows in data.files.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, if the task has any."""
        return tuple(self.labels.get("classes", ()))

    def describe(self, answer: Any) -> str:
        """Write an answer, or a target, for a reader."""
        return self.task.describe_answer(answer, self.labels)

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """Return the names of the splits that models predict."""
        return tuple(name for name in HELD_OUT if name in self.data)

    def in_one_part(self, trains_on_all: bool) -> "ExperimentTexts":
        """Return all texts as one part to train on, with a share to validate on.

        The share is set aside, or trained on too: then scores on it say nothing.
        """
        whole = join_datasets(list(self.data.values()))
        train, valid = set_aside(whole, self.task.split_classes(whole))
        pool = LabelPool(len(train), len(valid))
        if trains_on_all:
            train, pool = whole, LabelPool(len(whole), None)
        data = {"train": train, "validation": valid}
        return replace(self, data=data, pool=pool, folds=())

    def scored_labels(self, labels: int) -> int:
        """Return how many of so many labels the models are trained on whose scores are reported."""
        return labels if self.folds else self.pool.divide(labels)[0]

    def final_labels(self, labels: int) -> int:
        """Return how many a model is trained on that is trained once more, to be kept."""
        num_texts = sum(map(len, self.data.values()))
        return num_texts if self.folds or labels == len(self.pool) else labels

    def parts(self, read: Mapping[str, Dataset]) -> tuple[Splits, ...]:
        """Return the splits of each fold, given each split as an arm reads it."""
        if not self.folds:
            return (Splits(read["train"], read["validation"], read.get("test")),)
        texts = read["cross-validation"]
        return tuple(
            Splits(texts.subset(fold.train), texts.subset(fold.valid), texts.subset(fold.test))
            for fold in self.folds
        )


def read_texts(config: CompareConfig) -> ExperimentTexts:
    """Read the labelled files; refuse what cannot be compared before anything is trained."""
    task = finetuning_task(choose_task(config).task)
    if not task.is_comparable():
        raise WarmstartError(
            f"--task {task.name}: {task.description} cannot be compared, only fine-tuned"
        )
    if config.folds:
        texts = split_into_folds(config, task, read_all_texts(config, task))
    else:
        texts = _read_splits(config, task)
    for note in texts.notes:
        progress.say(note)
    return texts


def _with_targets(data: Dataset, task: FinetuningTask, labels: Labels) -> Dataset:
    """Return texts with the targets that follow from their labels; refuse unknown labels."""
    targets = task.targets(data, labels)
    return replace(data, targets=targets, strata=task.strata(targets))


def _read_splits(config: CompareConfig, task: FinetuningTask) -> ExperimentTexts:
    train, valid = read_training_texts(config, task)
    labels = task.read_labels(train)
    train, valid = (_with_targets(split, task, labels) for split in (train, valid))
    # With one trial nothing is chosen: without a test file, the texts set aside are only scored.
    selects = config.trials > 1 or config.keep_epoch == "best" or config.test
    pool = LabelPool(len(train), None if config.valid or not selects else len(valid))
    if config.test and not config.valid:
        _, num = pool.divide(_subset_sizes(config, pool, train, task)[-1])
        # The other texts select nothing, and predicting them can take longer than the training.
        valid = valid.subset(sorted(proportional_rows(valid.strata, HALVING_SEED)[:num]))
    data = {"train": train, "validation": valid}
    if config.test:
        test = local_name(config.test, config.allow_private_urls)
        read = read_labelled_file(task, test, config.test_labels, config)
        data["test"] = _with_targets(read, task, labels)
    check_same_form(*data.values())
    selections(range(len(valid)), "test" in data)  # refuses a single text
    notes = task.label_notes(train, valid)
    if config.refits:
        notes.append("once they have chosen, the texts set aside are trained on, too")
    if config.valid:
        notes.append(f"settings are chosen on {len(valid):,} labels of {config.valid}, too")
    return ExperimentTexts(task, labels, data, pool, notes)


def split_into_folds(
    config: CompareConfig, task: FinetuningTask, texts: Dataset
) -> ExperimentTexts:
    """Return labelled texts in folds, with copies and near-copies of a text in one fold."""
    labels = task.read_labels(texts)
    texts, num_folds = _with_targets(texts, task, labels), config.folds or 1
    stratified = replace(texts, labels=task.fold_classes(texts))
    folds, num_copies = split_folds(
        stratified, texts.groups or readable_rows(texts, config.pieces), num_folds, config.seed
    )
    notes = task.label_notes(texts, texts)
    least = min(len(fold.test) for fold in folds)
    note = f"{num_folds} folds of at least {quantity(least, 'text')}"
    if task.has_classes and len(set(stratified.labels)) > 1:
        note += ", the same share of every class"
    if num_copies:
        note += f"; {num_copies:,} texts have copies or near-copies, each in the same fold"
    notes.append(note)
    pool = LabelPool(min(len(fold.train) for fold in folds), min(len(fold.valid) for fold in folds))
    return ExperimentTexts(task, labels, {"cross-validation": texts}, pool, notes, folds)


def subset_sizes(config: CompareConfig, texts: ExperimentTexts) -> tuple[int, ...]:
    """Return the sizes of the label subsets, rising."""
    return _subset_sizes(config, texts.pool, texts.training, texts.task)


def _subset_sizes(
    config: CompareConfig, pool: LabelPool, train: Dataset, task: FinetuningTask
) -> tuple[int, ...]:
    sizes = {len(pool) if size == "all" else int(size) for size in config.labels}
    files = ", ".join(config.train) + (" in each fold" if config.folds else "")
    num_classes = len(set(train.strata)) if task.has_classes else 1
    for size in sizes:
        pool.check(size, num_classes, files)
    return tuple(sorted(sizes))
