"""Latent semantic analysis (Deerwester et al., 1990): the directions in which texts differ most.

A text is the set of its words and pairs of words, each divided by the root of the number of texts
that have it, scaled to length one. Pairs keep "not good" apart from "good". Needs no labels, and
seconds where a pretraining needs minutes.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.corpus import TextSource
from warmstart.data.lengths import UNSPACED
from warmstart.errors import WarmstartError
from warmstart.runs.checkpoint import read_weights, save_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
SPACE_FILE = "lsa.safetensors"  # in a run folder
MAX_DIMENSIONS = 256
LEAST_SPREAD = 1e-3  # of a dimension, also relative to the first; less is rounding
SEED = 0  # the same text gives the same space, whatever the seed of a training
MAX_UNITS = 40_000  # the most frequent ones; rarer ones add megabytes and no accuracy
MIN_DOCUMENTS = 5  # that have a unit
MIN_DOCUMENTS_OF_FEW, FEW_DOCUMENTS = 2, 1_000  # in a text of fewer documents than these
DOCUMENT_CHARS = 8_192  # a longer document counts as several
MAX_DOCUMENTS = 100_000  # that are analysed; more are sampled evenly. About 1 GB of memory
MAX_OCCURRENCES = 24_000_000  # of distinct units in these documents
NGRAM_SIZES = (1, 2, 3)  # characters of a unit in scripts that are written without spaces
_RUN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")


def units_of(text: str) -> Iterator[str]:
    """Yield the words of a text and pairs of them; its character n-grams in unspaced scripts."""
    before = ""
    for run in _RUN.findall(text.lower()):
        if _IS_UNSPACED.match(run):
            before = ""
            for size in NGRAM_SIZES:
                yield from (run[i : i + size] for i in range(len(run) - size + 1))
        else:
            yield run
            if before:
                yield f"{before} {run}"
            before = run


def placed_units(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the units of a text, each with the places, in lower case, where its words begin."""
    before: re.Match[str] | None = None
    for run in _RUN.finditer(text.lower()):
        word, start = run.group(), run.start()
        if _IS_UNSPACED.match(word):
            before = None
            for size in NGRAM_SIZES:
                places = range(len(word) - size + 1)
                yield from ((word[i : i + size], (start + i,)) for i in places)
        else:
            yield word, (start,)
            if before:
                yield f"{before.group()} {word}", (before.start(), start)
            before = run


@dataclass(frozen=True)
class Decomposition:
    """The largest singular vectors of documents; the first is left out: the mean document."""

    weights: NDArray[Any]  # of each unit, (V,)
    values: NDArray[Any]  # (D,)
    directions: NDArray[Any]  # (V, D)
    coordinates: NDArray[Any]  # (documents, D)


def decompose(occurrences: Any, rank: int, seed: int) -> Decomposition:
    """Analyse which units occur in which documents: sparse (documents, V), ones and zeros.

    Computes in the precision of the ones.
    """
    from sklearn.utils.extmath import randomized_svd  # loads libraries that are then limited
    from threadpoolctl import threadpool_limits

    num_documents = np.bincount(occurrences.indices, minlength=occurrences.shape[1])
    weights = (np.maximum(num_documents, 1) ** -0.5).astype(occurrences.dtype)
    weighted = weigh(occurrences, weights)
    with threadpool_limits(1, "blas"):  # threads that meet after every small sum take longer
        left, values, right = randomized_svd(weighted, rank + 1, random_state=seed % 2**32)
    return Decomposition(weights, values[1:], right[1:].T, left[:, 1:] * values[1:])


def weigh(occurrences: Any, weights: NDArray[Any]) -> Any:
    """Return documents with weighted units, each scaled to length one."""
    from scipy.sparse import diags_array
    from sklearn.preprocessing import normalize

    return normalize(occurrences @ diags_array(weights))


@dataclass(frozen=True)
class LatentSpace:
    """What an analysis found: texts in, vectors out."""

    words: tuple[str, ...]
    weights: NDArray[np.float32]  # (V,)
    projection: NDArray[np.float16]  # (V, D), to dimensions of variance one, the largest first

    @property
    def num_dimensions(self) -> int:
        return int(self.projection.shape[1])

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {word: column for column, word in enumerate(self.words)}

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return the vector of every text, (texts, D); zeros if it has no known word."""
        from scipy.sparse import csr_array

        if not len(texts):
            return np.zeros((0, self.num_dimensions))
        columns = [
            sorted({self._columns[unit] for unit in units_of(text) if unit in self._columns})
            for text in texts
        ]
        starts = np.cumsum([0, *map(len, columns)])
        numbers = np.array([column for row in columns for column in row], np.int32)
        ones = np.ones(len(numbers))
        matrix = csr_array((ones, numbers, starts), shape=(len(texts), len(self.words)))
        weighted = weigh(matrix, self.weights.astype(np.float64))
        vectors: Floats = weighted @ self.projection.astype(np.float64)
        return vectors

    def contributions(self, text: str, direction: Floats) -> dict[str, float]:
        """Return what each unit of a text adds to the product of its vector with a direction."""
        units = sorted({unit for unit in units_of(text) if unit in self._columns})
        columns = [self._columns[unit] for unit in units]
        weights = self.weights[columns].astype(np.float64)
        scaled = weights / max(float(np.linalg.norm(weights)), 1e-300)
        products = self.projection[columns].astype(np.float64) @ direction
        return dict(zip(units, (scaled * products).tolist(), strict=True))

    def save(self, path: Path) -> None:
        """Write the space as a safetensors file."""
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        arrays = {"words": words, "weights": self.weights, "projection": self.projection}
        save_weights(path, {name: torch.tensor(array) for name, array in arrays.items()})


def read_space(path: Path) -> LatentSpace:
    """Read the space that a run keeps; refuse a file whose parts do not fit together."""
    tensors = read_weights(path)
    try:
        words = tuple(tensors["words"].numpy().tobytes().decode().split("\n"))
        weights, projection = tensors["weights"], tensors["projection"]
    except (KeyError, TypeError, UnicodeDecodeError) as problem:
        raise WarmstartError(f"{path} is no latent semantic analysis: {problem}") from None
    num_units = len(set(words)) if len(set(words)) == len(words) else -1
    has_types = (weights.dtype, projection.dtype) == (torch.float32, torch.float16)
    has_shapes = weights.shape == (num_units,) and projection.shape[:1] == (num_units,)
    if not has_types or not has_shapes or projection.dim() != 2 or not projection.shape[1]:
        raise WarmstartError(f"{path} is no latent semantic analysis: its parts do not fit")
    return LatentSpace(words, weights.numpy(), projection.numpy())


def documents_of(source: TextSource) -> Iterator[str]:
    """Yield the documents of files; a long one in several parts."""
    for passage in source.passages():
        text = "\n".join(passage.rows)
        yield from (text[i : i + DOCUMENT_CHARS] for i in range(0, len(text), DOCUMENT_CHARS))


def fit_space(documents: Iterable[str]) -> LatentSpace | None:
    """Analyse documents; None: they are too few, share no words, or are nearly the same."""
    units, documents_units = _count_units(documents)
    occurrences, columns = _occurrences(documents_units)
    rank = min(MAX_DIMENSIONS, min(occurrences.shape) - 2)
    if rank < 1:
        return None
    found = decompose(occurrences, rank, SEED)
    spread = found.coordinates.std(axis=0)
    is_real = spread > max(LEAST_SPREAD * spread.max(), LEAST_SPREAD)
    if not is_real.any():
        return None
    return LatentSpace(
        tuple(units[column] for column in columns),
        found.weights.astype(np.float32),
        (found.directions[:, is_real] / spread[is_real]).astype(np.float16),
    )


def _count_units(documents: Iterable[str]) -> tuple[list[str], list[Ints]]:
    """Return all units, and the numbers of those in each document; beyond a limit, of a sample.

    Whenever there are too many, every second document is dropped, and from then on as many more are
    passed over: the sample stays even, however long the text turns out to be.
    """
    ids: defaultdict[str, int] = defaultdict()
    ids.default_factory = ids.__len__
    kept: list[Ints] = []
    num_occurrences, stride = 0, 1
    for number, document in enumerate(documents):
        if number % stride:
            continue
        kept.append(np.unique(np.fromiter((ids[unit] for unit in units_of(document)), np.int32)))
        num_occurrences += len(kept[-1])
        if len(kept) > MAX_DOCUMENTS or num_occurrences > MAX_OCCURRENCES:
            kept, stride = kept[::2], 2 * stride
            num_occurrences = sum(map(len, kept))
    return list(ids), kept


def _occurrences(documents: Sequence[Ints]) -> tuple[Any, Ints]:
    """Return which of the frequent units each document has, sparse, and the numbers of these."""
    from scipy.sparse import csr_array

    numbers = np.concatenate([*documents, np.zeros(0, np.int32)])
    frequencies = np.bincount(numbers)
    columns = np.argsort(-frequencies, kind="stable")[:MAX_UNITS]
    is_small = len(documents) < FEW_DOCUMENTS
    least = MIN_DOCUMENTS_OF_FEW if is_small else MIN_DOCUMENTS
    columns = columns[frequencies[columns] >= least]
    column_of = np.full(len(frequencies), -1, np.int32)
    column_of[columns] = np.arange(len(columns))
    rows = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    known = column_of[numbers] >= 0
    ones = np.ones(int(known.sum()), np.float32)
    places = (rows[known], column_of[numbers[known]])
    matrix = csr_array((ones, places), shape=(len(documents), len(columns)))
    return matrix[np.diff(matrix.indptr) > 0], columns
