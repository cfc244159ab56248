"""Texts that are unlike those that a model was trained on.

A text is compared by its words and pairs of words, and by its groups of three characters, with the
weights of TF-IDF; what the reference lacks counts as unlike. Its distance is one minus its mean
cosine similarity to the nearest texts of one half of the reference. The other half is held out and
tells how far usual texts lie (split conformal prediction), so about 1% of new texts like the
reference are marked.

The vectors of a model would not do: the last layer of a fine-tuned one knows only what tells its
labels apart, and texts of another language lie among the others there.
"""

import fnmatch
import glob
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.corpus import cut_chunks
from warmstart.data.labelled import Dataset, read_text_rows
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.jsonfiles import from_json
from warmstart.remotefiles import is_url
from warmstart.runs.facts import InputFiles
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import LabelledFiles, TableFormat
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.labelled_data import map_texts, read_all_texts
from warmstart.tasks.latent_semantics import units_of
from warmstart.tasks.registry import choose_task, finetuning_task
from warmstart.tasks.text_model import TextModel
from warmstart.textfiles import is_one_of

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer

Floats = NDArray[np.float64]
NUM_NEIGHBOURS = 5
USUAL_SHARE = 0.99  # of the held-out texts; a text farther than these is unusual
MOST_REFERENCES = 10_000  # texts; more are sampled: they take time and find little more
FEW_REFERENCES = 1_000  # with fewer, a handful of held-out texts decides what is unusual
NUM_COLUMNS = 1 << 20  # that words, or groups of characters, are hashed to
CHUNK = 256  # texts compared together, each with up to 5,000 others
DIGITS = 6  # of distances; later ones are rounding


@dataclass(frozen=True)
class Unusualness:
    """How far a text lies from those of a reference."""

    unusual: bool
    distance: float  # the share of held-out texts of the reference that lie nearer, from 0 to 1


class Neighbours:
    """Usual texts, as vectors of their weighted words and characters."""

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.pipeline import make_pipeline, make_union

        parts = (make_pipeline(counter, TfidfTransformer()) for counter in _counters())
        self._features = make_union(*parts)
        self._vectors = self._features.fit_transform(texts).T.tocsr()  # (columns, N)

    def distances(self, texts: Sequence[str]) -> Floats:
        """Return one minus the mean similarity of each text to its nearest neighbours."""
        num = min(NUM_NEIGHBOURS, self._vectors.shape[1])
        distances = [np.zeros(0)]
        for chunk in cut_chunks(texts, CHUNK):
            products = (self._features.transform(chunk) @ self._vectors).toarray()  # (texts, N)
            nearest = np.sort(np.partition(products, -num, axis=1)[:, -num:], axis=1)
            similarities = nearest.mean(axis=1) / len(self._features.transformer_list)
            distances.append(np.round(1 - similarities, DIGITS))
        return np.concatenate(distances)


def _counters() -> "list[HashingVectorizer]":
    """Return what finds the units of texts, and what finds their groups of three characters."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed: dict[str, Any] = {"n_features": NUM_COLUMNS, "alternate_sign": False}
    hashed |= {"binary": True, "norm": None, "dtype": np.float32}
    return [
        HashingVectorizer(analyzer=lambda text: list(units_of(text)), **hashed),
        HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), **hashed),
    ]


@dataclass(frozen=True)
class Reference:
    """Usual texts in two halves: neighbours to compare with, and texts held out from them."""

    near: Dataset
    held_out: Dataset

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.near.whole_texts())

    @cached_property
    def _distances(self) -> Floats:
        """Return the distances of the texts held out, in ascending order."""
        distances, texts = [np.zeros(0)], self.held_out.whole_texts()
        with progress.bar("measuring usual texts", len(texts), "text") as bar:
            for chunk in cut_chunks(texts, CHUNK):
                distances.append(self._neighbours.distances(chunk))
                bar.advance(len(chunk))
        return np.sort(np.concatenate(distances))

    def compare(self, texts: Sequence[str]) -> list[Unusualness]:
        """Tell how far each text lies from the reference; pairs are given as one text."""
        ranks = np.searchsorted(self._distances, self._neighbours.distances(texts))
        shares = ranks / len(self._distances)
        return [Unusualness(s >= USUAL_SHARE, round(s, DIGITS)) for s in shares.tolist()]


def divide_reference(texts: Dataset, seed: int) -> Reference:
    """Divide usual texts at random into neighbours and texts held out."""
    near, held_out = _halves(texts, seed)
    if not near or not held_out:
        raise WarmstartError(
            f"{texts.file}: one text, or texts of one group, cannot tell which texts are usual"
        )
    num = len(near) + len(held_out)
    if num < FEW_REFERENCES:
        usual = quantity(num, "usual text")
        progress.say(
            f"{usual} to compare with: what is marked as unusual is a rough guess; --like FILE of "
            "predict and serve takes more, without labels too"
        )
    return Reference(texts.subset(near), texts.subset(held_out))


def find_reference(
    saved: SavedRun, model: TextModel, usual: Dataset | None, seed: int
) -> Reference:
    """Return usual texts to compare with: those given, else those that the run was trained on."""
    _ = model.predict  # refused, before anything is read, if it is no classifier
    if usual is not None:
        return divide_reference(usual, seed)
    try:
        return divide_reference(trained_texts(saved, model)[0], seed)
    except WarmstartError as problem:
        raise WarmstartError(f"{problem}; name a file of usual texts with --like") from None


def _halves(texts: Dataset, seed: int) -> tuple[list[int], list[int]]:
    """Return the rows of both halves; texts of one group, such as a passage, are in one half."""
    rows_of: dict[Any, list[int]] = defaultdict(list)
    for row, group in enumerate(texts.groups or range(len(texts))):
        rows_of[group].append(row)
    groups = list(rows_of.values())
    np.random.default_rng(seed).shuffle(groups)
    shuffled = [row for rows in groups for row in rows]
    most = min(MOST_REFERENCES, len(shuffled)) // 2
    cut = next((n for n in accumulate(map(len, groups)) if n >= most), most)
    return shuffled[:cut], shuffled[cut : 2 * most]


def trained_texts(saved: SavedRun, model: TextModel) -> tuple[Dataset, FinetuningTask]:
    """Read the labelled files of a run again, and return the task that reads their labels."""
    if not saved.settings.get("train"):
        raise WarmstartError(f"{saved.path} records no labelled texts")
    names = [setting.name for setting in LabelledFiles.declared()]
    settings = saved.recorded(LabelledFiles, *(n for n in names if n in saved.settings))
    try:
        settings = choose_task(_unchanged_files(saved, settings))
        task = finetuning_task(settings.task)
        texts = read_all_texts(settings, task)
    except WarmstartError as problem:
        raise WarmstartError(
            f"the texts that {saved.path} was trained on cannot be read: {problem}"
        ) from None
    return map_texts(texts, model.text_reader(settings.pieces)), task


def _unchanged_files(saved: SavedRun, settings: LabelledFiles) -> LabelledFiles:
    """Return settings that name single files, all of them those that the run was trained on.

    The run may be somebody else's: other files are refused, and no folder is searched for files.
    """
    one = (settings.valid, settings.valid_labels)
    if url := next(
        filter(is_url, [*settings.train, *settings.train_labels, *filter(None, one)]), None
    ):
        raise WarmstartError(f"{url} is not fetched, because it is a run that names it")
    folder = saved.folder
    listed = from_json(InputFiles, folder.read_json(folder.data_file), folder.data_file).files
    known = {entry.sha256 for entry in listed}
    paths = [entry.path for entry in listed if entry.path not in one]
    train = tuple(path for name in settings.train for path in files_of(name, paths))
    for file in (*train, *settings.train_labels, *filter(None, one)):
        if not is_one_of(Path(file), known):
            raise WarmstartError(f"{file} has changed since {saved.path} was trained on it")
    return replace(settings, train=train)


def files_of(name: str, listed: Sequence[str]) -> list[str]:
    """Return those of the listed files that a file, a folder or a pattern stands for."""
    path = Path(name)
    if path.is_dir():
        return [file for file in listed if Path(file).is_relative_to(path)] or [name]
    if path.is_file() or not glob.has_magic(name):
        return [name]
    return [file for file in listed if _is_match(Path(file).parts, path.parts)] or [name]


@lru_cache(maxsize=10_000)
def _is_match(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Tell whether a pattern stands for a file, as in glob: `**` is any number of folders."""
    if not pattern or not parts:
        return not pattern and not parts
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        return any(_is_match(parts[i:], rest) for i in range(len(parts)))
    return fnmatch.fnmatch(parts[0], first) and _is_match(parts[1:], rest)


def read_usual_texts(path: Path, tables: TableFormat, model: TextModel) -> Dataset:
    """Read the texts of a file: lines or a table, pairs if the model reads pairs."""
    if not path.is_file():
        raise WarmstartError(f"--like {path} is not a file; name one with usual texts")
    rows = read_text_rows(path, tables, bool(model.reads_pairs), model.pair_names)
    filled = [row for row in rows if not row.is_empty]
    if not filled:
        raise WarmstartError(f"--like {path}: no rows with text")
    seconds = [row.text2 for row in filled if row.text2 is not None]
    return Dataset(str(path), [row.text for row in filled], seconds=seconds or None)
