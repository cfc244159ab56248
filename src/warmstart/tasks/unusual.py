"""Texts that are unlike those that a model was trained on.

The distance of a text is one minus its mean cosine similarity to the nearest texts of a reference.
One half of the reference are those neighbours. The other half is held out and tells how far usual
texts lie (split conformal prediction), so about 1% of new texts like the reference are marked,
whatever the vectors are worth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.corpus import cut_chunks
from warmstart.data.labelled import Dataset, join_pair, read_text_rows
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.jsonfiles import from_json
from warmstart.runs.facts import InputFiles
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import LabelledFiles, TableFormat
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.labelled_data import map_texts, read_all_texts
from warmstart.tasks.latent_semantics import SPACE_FILE, LatentSpace, fit_space, read_space
from warmstart.tasks.registry import choose_task, finetuning_task
from warmstart.tasks.text_model import TextModel, TransformerModel
from warmstart.textfiles import sha256_of

Floats = NDArray[np.float64]
Embed = Callable[[Sequence[str], Sequence[str] | None], Floats]  # texts, second texts -> (texts, D)
NUM_NEIGHBOURS = 5
USUAL_SHARE = 0.99  # of the held-out texts; a text farther than these is unusual
MOST_REFERENCES = 20_000  # texts; more are sampled
FEW_REFERENCES = 100  # with fewer, the farthest 1% of the held-out ones are not even one text
CHUNK = 1024  # texts read together
DIGITS = 6  # of distances; later ones depend on the texts that share a batch


@dataclass(frozen=True)
class Unusualness:
    """How far a text lies from those of a reference."""

    unusual: bool
    distance: float  # the share of held-out texts of the reference that lie nearer, from 0 to 1


@dataclass(frozen=True)
class Reference:
    """Usual texts: vectors to compare with, and the distances of those held out."""

    embed: Embed
    near: Dataset
    held_out: Dataset
    neighbours: Floats  # (N, D)
    distances: Floats  # of the held-out texts, in ascending order

    def compare(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[Unusualness]:
        """Tell how far each text lies from the reference."""
        distances = mean_distances(self.embed(texts, seconds), self.neighbours)
        shares = np.searchsorted(self.distances, distances) / len(self.distances)
        return [Unusualness(s >= USUAL_SHARE, round(s, DIGITS)) for s in shares.tolist()]


def mean_distances(vectors: Floats, neighbours: Floats) -> Floats:
    """Return one minus the mean product with the nearest neighbours, (texts,)."""
    num = min(NUM_NEIGHBOURS, len(neighbours))
    products = vectors @ neighbours.T  # (texts, N)
    nearest = np.partition(products, -num, axis=1)[:, -num:]
    distances: Floats = np.round(1 - np.sort(nearest, axis=1).mean(axis=1), DIGITS)
    return distances


def fit_reference(saved: SavedRun, model: TextModel, texts: Dataset, seed: int) -> Reference:
    """Divide usual texts into neighbours and texts held out, and measure the latter."""
    if len(texts) < 2:
        raise WarmstartError(f"{texts.file}: one text cannot tell which texts are usual")
    rows = np.random.default_rng(seed).permutation(len(texts))[:MOST_REFERENCES]
    near, held_out = (texts.subset(half.tolist()) for half in np.array_split(rows, 2))
    if len(rows) < FEW_REFERENCES:
        usual = quantity(len(rows), "usual text")
        progress.say(f"{usual} to compare with: what is marked as unusual is a rough guess")
    embed = text_embedder(saved, model, near)
    neighbours = embed_rows(embed, near)
    distances = mean_distances(embed_rows(embed, held_out), neighbours)
    return Reference(embed, near, held_out, neighbours, np.sort(distances))


def embed_rows(embed: Embed, texts: Dataset) -> Floats:
    """Return the vectors of many texts, read in chunks behind a bar."""
    parts = []
    with progress.bar("comparing with usual texts", len(texts), "text") as bar:
        for rows in cut_chunks(range(len(texts)), CHUNK):
            chunk = texts.subset(rows)
            parts.append(embed(chunk.texts, chunk.seconds))
            bar.advance(len(rows))
    return np.concatenate(parts)


def text_embedder(saved: SavedRun, model: TextModel, near: Dataset) -> Embed:
    """Return what makes vectors of texts: the run's analysis or embeddings, else an analysis.

    The last layer of a fine-tuned Transformer knows only what tells its labels apart: texts of
    another language lie among the others there. In the embeddings they do not.
    """
    file = saved.folder.path / SPACE_FILE
    if not file.exists() and isinstance(model, TransformerModel):
        return _embeddings(model)
    space = read_space(file) if file.exists() else fit_space(near.whole_texts())
    if space is None:
        raise WarmstartError(
            f"{near.file}: {quantity(len(near), 'text')} with too few words in common to tell "
            "which texts are usual"
        )
    return _analysis(space)


def _embeddings(model: TransformerModel) -> Embed:
    def embed(texts: Sequence[str], seconds: Sequence[str] | None) -> Floats:
        vectors = model.vectors(model.encode(texts, seconds), layer=0, normalize=True)
        return vectors.astype(np.float64)

    return embed


def _analysis(space: LatentSpace) -> Embed:
    """Return vectors of length one, but shorter where units are unknown: those are like nothing."""

    def embed(texts: Sequence[str], seconds: Sequence[str] | None) -> Floats:
        whole = list(map(join_pair, texts, seconds)) if seconds else list(texts)
        vectors = space.vectors(whole)
        lengths = np.linalg.norm(vectors, axis=1)
        scales = np.sqrt([space.known_share(text) for text in whole])
        scaled: Floats = vectors * (scales / np.where(lengths > 0, lengths, 1.0))[:, None]
        return scaled

    return embed


def trained_texts(saved: SavedRun, model: TextModel) -> tuple[Dataset, FinetuningTask]:
    """Read the labelled files of a run again, and return the task that reads their labels."""
    if not saved.settings.get("train"):
        raise WarmstartError(f"{saved.path} records no labelled texts")
    names = [setting.name for setting in LabelledFiles.declared()]
    settings = saved.recorded(LabelledFiles, *(n for n in names if n in saved.settings))
    try:
        settings = choose_task(settings)
        task = finetuning_task(settings.task)
        texts = read_all_texts(settings, task)
    except WarmstartError as problem:
        raise WarmstartError(
            f"the texts that {saved.path} was trained on cannot be read: {problem}"
        ) from None
    folder = saved.folder
    listed = from_json(InputFiles, folder.read_json(folder.data_file), folder.data_file).files
    known = {entry.sha256 for entry in listed}
    for file in texts.files:
        if sha256_of(file) not in known:
            raise WarmstartError(f"{file} has changed since {saved.path} was trained on it")
    return map_texts(texts, model.text_reader(settings.pieces)), task


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
