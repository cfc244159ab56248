"""Unlabelled texts that other models label for a fine-tuning (distillation)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.corpus import source_of
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.runs.saved import SavedRun, read_run
from warmstart.settings.shared import TableFormat
from warmstart.settings.training import FinetuneConfig
from warmstart.tasks.finetuning import FinetuningTask, Labels
from warmstart.tasks.registry import open_saved, task_of
from warmstart.tasks.teaching import (
    average_views,
    join_taught,
    pretraining_files,
    pretraining_texts,
    sample_texts,
    teach,
    unchanged_files,
)


def texts_to_teach(
    config: FinetuneConfig, parent: SavedRun | None, labelled: Sequence[Dataset]
) -> Dataset:
    """Return a sample of unlabelled texts, none of them a copy or near-copy of a labelled one."""
    documents: Iterator[str]
    files: list[Path]
    if config.unlabelled:
        tables = TableFormat(delimiter=config.delimiter, encoding=config.encoding)
        source = source_of(config.unlabelled, "auto", tables, config.allow_private_urls)
        documents = ("\n".join(passage.rows) for passage in source.passages())
        files = list(source.files)
    elif parent and (files := list(unchanged_files(pretraining_files([parent])))):
        documents = pretraining_texts(files)
    else:
        raise WarmstartError("--teacher needs --unlabelled, the texts that it labels")
    known = fingerprints_of(text for part in labelled for text in part.texts)
    texts = tuple(sample_texts(documents, config.teacher_texts, known))
    if not texts:
        raise WarmstartError(
            f"{', '.join(map(str, files))}: no text besides the labelled ones for --teacher"
        )
    return Dataset("unlabelled text", texts, files=dict.fromkeys(files, len(texts)))


def add_taught(
    config: FinetuneConfig,
    parent: SavedRun | None,
    task: FinetuningTask,
    labels: Labels,
    train: Dataset,
    valid: Dataset,
) -> Dataset:
    """Return the texts to train on with those that the teachers of --teacher label together."""
    _check(config, task, train)
    teachers = [read_run(path) for path in config.teacher]
    texts = texts_to_teach(config, parent, (train, valid))
    views = [_ask(teacher, texts.texts, labels["classes"], config) for teacher in teachers]
    taught = teach(texts, average_views(views), labels["classes"])
    weights = {teacher.weights_file: len(teacher.weights) for teacher in teachers}
    taught = replace(taught, lines=tuple(range(1, len(texts) + 1)), targets=())
    taught = replace(taught, files={**taught.files, **weights})
    names = ", ".join(config.teacher)
    progress.say(f"{names}: {quantity(len(texts), 'unlabelled text')} labelled for the student")
    return join_taught(train, taught, config)


def _check(config: FinetuneConfig, task: FinetuningTask, train: Dataset) -> None:
    if not task.learns_shares:
        raise WarmstartError(f"--teacher: {task.description} learns no probabilities")
    if train.seconds is not None:
        raise WarmstartError(
            "--teacher: unlabelled texts are no pairs, which the labelled ones are"
        )


def _ask(
    teacher: SavedRun, texts: Sequence[str], classes: Sequence[str], config: FinetuneConfig
) -> NDArray[np.float64]:
    """Return the probability that a teacher gives to every class of every text: (texts, C)."""
    if set(teacher.classes) != set(classes):
        raise WarmstartError(
            f"--teacher {teacher.path} tells {', '.join(teacher.classes) or 'no classes'} apart, "
            f"but the labels are {', '.join(classes)}"
        )
    with progress.silence():
        answers = open_saved(teacher, config).predict(texts)
    if not hasattr(answers[0], "probabilities"):
        raise WarmstartError(
            f"--teacher {teacher.path} is {task_of(teacher).description}, which labels no texts"
        )
    rows: list[Mapping[str, Any]] = [answer.probabilities for answer in answers]
    return np.array([[row[name] for name in classes] for row in rows])
