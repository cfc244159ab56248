"""Drift: new texts beside those that a model was trained on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

from warmstart import progress
from warmstart.data.corpus import cut_chunks
from warmstart.data.drift import Drift, TextFigures, new_word_share
from warmstart.data.file_report import FileReader
from warmstart.data.labelled import Dataset, TextRow, read_text_rows
from warmstart.data.lengths import TextLengths
from warmstart.errors import WarmstartError
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import Machine
from warmstart.settings.using import DataConfig
from warmstart.tasks.labelled_data import map_texts
from warmstart.tasks.latent_semantics import units_of
from warmstart.tasks.registry import open_saved, task_of
from warmstart.tasks.text_model import TextModel
from warmstart.tasks.unusual import Reference, divide_reference, trained_texts

MOST_TEXTS = 5_000  # of a file, drawn at random: enough to tell shares to about one in a hundred
CHUNK = 1024  # texts labelled together
SEED = 0


def find_drift(
    saved: SavedRun, readers: Sequence[FileReader], config: DataConfig
) -> tuple[Drift, ...]:
    """Compare files with the texts of a run that predicts labels; of other runs there is none."""
    if task_of(saved).is_pretraining:
        return ()
    try:
        model = open_saved(saved, Machine())
        if not hasattr(model, "predict"):
            return ()
        texts, task = trained_texts(saved, model)
        reference = divide_reference(texts, SEED)
        labels = _shares(map(task.label_names, texts.labels))
        sampled = (_read(reader, model, config) for reader in readers)
        return tuple(_drift(texts, model, reference, labels) for texts in sampled)
    except WarmstartError as problem:
        progress.say(f"drift is not reported: {problem}")
        return ()


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; n-grams in scripts without spaces."""
    return [unit for unit in units_of(text) if " " not in unit]


def _drift(
    texts: Dataset, model: TextModel, reference: Reference, labels: dict[str, float] | None
) -> Drift:
    known = {word for text in reference.near.whole_texts() for word in words_of(text)}
    predicted = None if labels is None else _shares(_predicted_labels(model, texts))
    unit = TextLengths().add(reference.held_out.whole_texts()).unit
    return Drift(
        file=texts.file,
        unit=unit,
        new=_figures(texts, unit, known, predicted, reference),
        usual=_figures(reference.held_out, unit, known, labels, reference),
    )


def _read(reader: FileReader, model: TextModel, config: DataConfig) -> Dataset:
    """Return a sample of the texts of a file, as the model reads them."""
    data = reader.labelled
    if not len(data):
        rows = read_text_rows(reader.path, config, bool(model.reads_pairs), model.pair_names)
        sample = _sample((row for row in rows if not row.is_empty), MOST_TEXTS)
        seconds = [row.text2 for row in sample if row.text2 is not None]
        data = Dataset(str(reader.path), [row.text for row in sample], seconds=seconds or None)
    elif len(data) > MOST_TEXTS:
        data = data.subset(Random(SEED).sample(range(len(data)), MOST_TEXTS))
    model.check_form(data.seconds is not None)
    return map_texts(data, model.text_reader(config.pieces))


def _sample(rows: Iterable[TextRow], size: int) -> list[TextRow]:
    """Return so many rows of a stream, each with the same chance (reservoir sampling)."""
    random, kept = Random(SEED), list[TextRow]()
    for number, row in enumerate(rows):
        if number < size:
            kept.append(row)
        elif (place := random.randrange(number + 1)) < size:
            kept[place] = row
    return kept


def _figures(
    texts: Dataset,
    unit: str,
    known: set[str],
    labels: dict[str, float] | None,
    reference: Reference,
) -> TextFigures:
    whole = texts.whole_texts()
    lengths = TextLengths().add(whole).sizes(unit)
    marks = [mark.unusual for mark in reference.compare(whole)]
    return TextFigures(
        texts=len(texts),
        new_words=new_word_share(map(words_of, whole), known),
        median=float(np.median(lengths)),
        long=float(np.quantile(lengths, 0.95)),
        labels=labels,
        unusual=sum(marks) / len(marks),
    )


def _predicted_labels(model: TextModel, texts: Dataset) -> list[Sequence[str]]:
    """Return the labels that a model predicts for every text."""
    answers: list[Any] = []
    with progress.bar(f"labelling {texts.file}", len(texts), "text") as bar:
        for rows in cut_chunks(range(len(texts)), CHUNK):
            chunk = texts.subset(rows)
            answers += model.predict(chunk.texts, chunk.seconds)
            bar.advance(len(rows))
    return [getattr(answer, "labels", (answer.label,)) for answer in answers]


def _shares(labels: Iterable[Sequence[str]]) -> dict[str, float] | None:
    """Return the share of texts with each label; None: there are no labels."""
    named = list(labels)
    counts = Counter(name for names in named for name in names)
    return {name: counts[name] / len(named) for name in sorted(counts)} or None
