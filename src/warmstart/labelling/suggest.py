"""`suggest`: which texts to label next."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warmstart import progress
from warmstart.data.corpus import cut_chunks
from warmstart.data.detection import normal
from warmstart.data.labelled import TextRow, join_pair
from warmstart.data.outputs import write_table
from warmstart.dataframes import Tabular
from warmstart.errors import WarmstartError
from warmstart.files import write_lines
from warmstart.formats import one_line, quantity
from warmstart.labelling.choosing import (
    MAX_DIMENSIONS,
    Floats,
    choose_texts,
    principal_components,
)
from warmstart.labelling.pool import Pool, read_pool
from warmstart.labelling.settings import SuggestConfig
from warmstart.recipes.use import CHUNK, delimiter_like, reads_pairs
from warmstart.report.html import Shown, table
from warmstart.runs.saved import SavedRun, read_run
from warmstart.tasks.latent_semantics import SPACE_FILE, fit_space, read_space
from warmstart.tasks.registry import open_saved, task_of
from warmstart.tasks.text_model import TextModel, TransformerModel
from warmstart.textfiles import file_or_stream, format_of, standard_input

ADDED = ("predicted", "probability", "rank")  # columns besides the label
PREFIX = "suggested_"  # of these, where the input has a column of the same name
SHOWN_CHARS = 120  # of a text in a notebook
Read = Callable[[list[str], list[str] | None], Iterable[Any]]


@dataclass(frozen=True)
class SuggestedText:
    """A text to label."""

    row: TextRow
    rank: int  # from 1, the first to label
    predicted: str | None  # what the run would answer; None: it is no classifier
    probability: float | None  # of that answer; None: the task gives none

    def values(self) -> dict[str, Any]:
        """Return the text and what is known of it as JSON values."""
        seconds = {} if self.row.text2 is None else {"text2": self.row.text2}
        added = dict(zip(ADDED, (self.predicted, self.probability, self.rank), strict=True))
        return {"text": self.row.text, **seconds, **added}


@dataclass(frozen=True)
class Suggestions(Shown, Tabular):
    """Texts to label, the first at the beginning."""

    texts: tuple[SuggestedText, ...]
    num_candidates: int  # that they were chosen from
    is_by_uncertainty: bool  # False: they are spread over the texts alone
    start: str | None  # the run that the next training can start from
    is_transformer: bool = True  # False: of a baseline, which `compare` trains
    label_column: str = "label"  # to be filled in
    trained_on: tuple[str, ...] = ()  # labelled files of the run, to train on again
    out: Path | None = None  # the file written

    def __iter__(self) -> Iterator[SuggestedText]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def records(self) -> list[Mapping[str, Any]]:
        return list(_table_rows(self))

    def describe(self) -> str:
        """Say how the texts were chosen."""
        how = "spread over all of them"
        if self.is_by_uncertainty:
            how = f"texts that the run is unsure of, {how}"
        return f"{len(self):,} of {quantity(self.num_candidates, 'text')} suggested: {how}"

    def pieces(self) -> list[str]:
        rows = [
            [str(text.rank), text.row.text[:SHOWN_CHARS], text.predicted or ""] for text in self
        ]
        return [self.describe(), table(["rank", "text", "predicted"], rows, left=[1, 2])]


def suggest(config: SuggestConfig) -> Suggestions:
    """Choose the texts of a file that are worth labelling next, and write them as a table."""
    saved = read_run(config.run)
    model, task = open_saved(saved, config), task_of(saved)
    source = file_or_stream(config.file, standard_input())
    is_pair = reads_pairs(config, model, source)
    known = None if task.is_pretraining else saved.texts_labelled()
    pool = read_pool(config, source, is_pair, model.text_reader(config.pieces), known)
    progress.say(pool.describe())
    if not pool.rows:
        raise WarmstartError(
            f"{config.file or 'standard input'}: no text is left to suggest: {pool.describe()}"
        )
    suggestions = _choose(config, saved, model, pool)
    if config.out:
        _write(config, Path(config.out), suggestions)
    return suggestions


def _choose(config: SuggestConfig, saved: SavedRun, model: TextModel, pool: Pool) -> Suggestions:
    predictions = _predict(model, pool)
    uncertainty = _uncertainty(predictions)
    if predictions and uncertainty is None:
        progress.say(f"{model.name} is {model.description}, whose answers have no uncertainty")
    vectors = text_vectors(saved, model, pool)
    chosen = choose_texts(vectors, uncertainty, config.num, config.seed)
    texts = tuple(
        _suggestion(pool.rows[row], rank, predictions[row] if predictions else None)
        for rank, row in enumerate(chosen, 1)
    )
    return Suggestions(
        texts,
        len(pool.rows),
        uncertainty is not None,
        _start_of(saved),
        isinstance(model, TransformerModel),
        config.label_column,
        _trained_on(config, saved),
        Path(config.out) if config.out else None,
    )


def _trained_on(config: SuggestConfig, saved: SavedRun) -> tuple[str, ...]:
    """Return the labelled files of the run that are there, if these columns are in them, too."""
    settings = saved.settings
    is_like_these = list(config.columns) == list(settings.get("columns") or ())
    if task_of(saved).is_pretraining or settings.get("train_labels") or not is_like_these:
        return ()
    return tuple(name for name in settings.get("train") or () if Path(name).is_file())


def _start_of(saved: SavedRun) -> str | None:
    """Return the pretrained run: this one, or the one that a classifier began with."""
    if task_of(saved).is_pretraining:
        return str(saved.path)
    recorded = saved.settings.get("from")
    first = recorded[0] if isinstance(recorded, list) and recorded else recorded
    return first if isinstance(first, str) else None


def _suggestion(row: TextRow, rank: int, prediction: Any) -> SuggestedText:
    if prediction is None:
        return SuggestedText(row, rank, None, None)
    probability = prediction.columns().get("probability")
    return SuggestedText(row, rank, prediction.label, probability)


def _predict(model: TextModel, pool: Pool) -> list[Any]:
    """Return what the model answers to every text; nothing if it is no classifier."""
    return _in_chunks("labelling", pool, model.predict) if "predict" in model.abilities else []


def _uncertainty(predictions: Sequence[Any]) -> Floats | None:
    """Return how unsure each prediction is; None: there are none, or the task does not say."""
    values = [getattr(prediction, "uncertainty", None) for prediction in predictions]
    return None if not values or None in values else np.array(values, np.float64)


def text_vectors(saved: SavedRun, model: TextModel, pool: Pool) -> Floats:
    """Return vectors that tell the texts apart: of the run's analysis or model, else of the pool.

    A model without vectors, such as TF-IDF, gets a latent semantic analysis of the texts.
    """
    file = saved.folder.path / SPACE_FILE
    space = read_space(file) if file.exists() else None
    if space is None and isinstance(model, TransformerModel):
        transformer = model

        def embed(texts: list[str], seconds: list[str] | None) -> Floats:
            return transformer.vectors(transformer.encode(texts, seconds))

        return principal_components(np.array(_in_chunks("embedding", pool, embed)))
    whole = list(map(join_pair, pool.texts, pool.seconds)) if pool.seconds else pool.texts
    space = space or fit_space(whole)
    if space is None:  # too few texts, or no shared words: any choice is as good
        return np.zeros((len(whole), 1))
    return space.vectors(whole)[:, :MAX_DIMENSIONS]


def _in_chunks(title: str, pool: Pool, read: Read) -> list[Any]:
    """Return what a model makes of every text, read in chunks behind a bar."""
    made: list[Any] = []
    with progress.bar(title, len(pool.texts), "text") as bar:
        for rows in cut_chunks(range(len(pool.texts)), CHUNK):
            seconds = pool.seconds and [pool.seconds[row] for row in rows]
            made += list(read([pool.texts[row] for row in rows], seconds))
            bar.advance(len(rows))
    return made


def text_lines(suggestions: Suggestions) -> Iterator[str]:
    """Yield the suggested texts, one on a line."""
    for text in suggestions:
        parts = (text.row.text, text.row.text2)
        yield "\t".join(one_line(part) for part in parts if part is not None)


def _write(config: SuggestConfig, path: Path, suggestions: Suggestions) -> None:
    config.refuse_existing()
    if format_of(path) == "lines":
        write_lines(path, text_lines(suggestions))
        return
    rows = list(_table_rows(suggestions))
    write_table(path, rows, delimiter_like(config.file, config), config.raw_cells)


def _table_rows(suggestions: Suggestions) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the input with an empty column to fill in, and what is known of each."""
    present = {normal(name) for text in suggestions for name in text.row.record}
    prefix = "" if present.isdisjoint(ADDED) else PREFIX
    if prefix:
        progress.say(f"names of new columns begin with '{PREFIX}': the input has the others")
    for text in suggestions:
        record, values = dict(text.row.record), text.values()
        if normal(suggestions.label_column) not in present:
            record[suggestions.label_column] = ""
        added = {f"{prefix}{name}": values[name] for name in ADDED}
        taken = next((name for name in added if name in record), None)
        if taken is not None:
            raise WarmstartError(f"the input already has a column '{taken}': rename it")
        yield {**record, **added}
