"""TF-IDF and logistic regression, an honest baseline.

Words and word pairs beside characters inside words. Knows nothing about validation: whoever fits it
tries its settings and keeps the best. A run of this kind has no Transformer: model.safetensors has
the inverse document frequencies and the regression, features.json what each column counts.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.settings.training import Balance
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.explaining import WordNumbers, share_out
from warmstart.tasks.linear import LinearTask
from warmstart.tasks.logistic import (
    check_classes,
    class_shares,
    fit_logistic,
    rebuild_logistic,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion

Names = Mapping[str, Sequence[str]]  # the n-grams of each kind, in the order of their columns
STRENGTHS = (10.0, 1.0, 100.0, 3.0, 30.0, 0.3, 300.0, 0.1, 1000.0)  # of C, in the order of trial
Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
FEATURES_FILE = "features.json"
NGRAMS: Mapping[str, Mapping[str, Any]] = {
    "words": {"token_pattern": r"\w+", "ngram_range": (1, 2)},  # words of one letter too
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}
_TOKEN = re.compile(r"\w+")
CACHED_WORDS = 2**16  # most words of a text are among the frequent ones


@dataclass(frozen=True, kw_only=True)
class TfidfModel:
    """A fitted baseline: texts in, classes out."""

    features: "FeatureUnion"
    model: "LogisticRegression"

    def predict(self, texts: Sequence[str]) -> list[int]:
        """Return the class index of each text."""
        return [int(number) for number in self.model.predict(self.features.transform(texts))]

    def outputs(self, texts: Sequence[str], num_classes: int) -> NDArray[np.float64]:
        """Return the probability of every class, (texts, C); 0 for classes it was not fitted on."""
        if not len(texts):
            return np.zeros((0, num_classes))
        return class_shares(self.model, self.features.transform(texts), num_classes)

    def word_weights(self, texts: Sequence[str], directions: Iterable[Floats]) -> Iterator[Floats]:
        """Yield what each word of a text contributes to coefficients times features: (words,)."""
        return tfidf_word_weights(self.features, texts, directions)


def tfidf_word_weights(
    features: "FeatureUnion", texts: Sequence[str], directions: Iterable[Floats]
) -> Iterator[Floats]:
    """Yield, of each text, what n-grams contribute, divided between their words: (words,)."""
    rows = features.transform(texts)
    ends = pairwise(rows.indptr.tolist())
    for text, direction, (start, end) in zip(texts, directions, ends, strict=True):
        columns = rows.indices[start:end]
        products = rows.data[start:end] * direction[columns]
        yield _divide(features, text, dict(zip(columns.tolist(), products.tolist(), strict=True)))


def _divide(features: "FeatureUnion", text: str, products: Mapping[int, float]) -> Floats:
    """Divide what the columns of a text contribute between the words that they cover: (words,)."""
    numbers, weights, start = WordNumbers(text), np.zeros(len(text.split())), 0
    for kind, vectorizer in features.transformer_list:
        columns = vectorizer.vocabulary_
        occurrences = list(_occurrences(kind, vectorizer, numbers))
        contributions = {
            name: products[start + columns[name]]
            for name, _ in occurrences
            if start + columns.get(name, -start - 1) in products
        }
        weights += share_out(contributions, occurrences, len(weights))
        start += len(columns)
    return weights


def _occurrences(
    kind: str, vectorizer: Any, numbers: WordNumbers
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the n-grams of a text with the words that each covers."""
    if kind == "characters":  # no n-gram crosses white space
        analyze = vectorizer.build_analyzer()
        yield from ((gram, (n,)) for n, word in enumerate(numbers.words) for gram in analyze(word))
        return
    tokens = [(m.group(), numbers(m.start())) for m in _TOKEN.finditer(numbers.text)]
    yield from ((token, (number,)) for token, number in tokens)
    for (first, number), (second, other) in pairwise(tokens):
        yield f"{first} {second}", (number, other)


@dataclass(frozen=True, kw_only=True)
class FeaturesFile:
    """features.json: the n-gram that each column counts, in order."""

    words: tuple[str, ...]
    characters: tuple[str, ...]


def save_baseline(baseline: TfidfModel, run: RunFolder) -> None:
    """Write the features and the weights of a baseline to its run folder."""
    save_regression(baseline.model, save_features(baseline.features, run), run)


def save_features(features: "FeatureUnion", run: RunFolder) -> dict[str, Any]:
    """Write what each column counts; return the inverse document frequencies by name."""
    vectorizers = dict(features.transformer_list)
    names = {
        kind: sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)
        for kind, vectorizer in vectorizers.items()
    }
    write_json(run.path / FEATURES_FILE, names)
    return {f"{kind}.idf": vectorizer.idf_ for kind, vectorizer in vectorizers.items()}


def save_regression(model: "LogisticRegression", arrays: Mapping[str, Any], run: RunFolder) -> None:
    """Write a regression, and arrays of its features."""
    fitted = {"coef": model.coef_, "intercept": model.intercept_, "classes": model.classes_}
    save_weights(
        run.weights_file,
        {k: torch.tensor(np.ascontiguousarray(array)) for k, array in {**arrays, **fitted}.items()},
    )


def read_baseline(run: SavedRun) -> TfidfModel:
    """Return the baseline of a run, which predicts what the saved one did."""
    arrays = {name: array.numpy() for name, array in run.weights.items()}
    with refuse_misfit(run):
        features, num_columns = read_features(run, arrays)
        model = rebuild_logistic(arrays, num_columns)
    check_classes(model, run)
    return TfidfModel(features=features, model=model)


@contextmanager
def refuse_misfit(run: SavedRun) -> Iterator[None]:
    """Turn the errors of files that do not fit together into one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        files = f"{run.weights_file} does not fit {run.folder.path / FEATURES_FILE}"
        raise WarmstartError(f"{files}: {error}") from None


def read_features(run: SavedRun, arrays: Mapping[str, Any]) -> tuple["FeatureUnion", int]:
    """Return the feature extractor of a run, and its number of columns."""
    file = run.folder.path / FEATURES_FILE
    names = from_json(FeaturesFile, run.folder.read_json(file), file)
    features = _new_features(asdict(names), {kind: arrays[f"{kind}.idf"] for kind in NGRAMS})
    return features, len(names.words) + len(names.characters)


class CountedTexts:
    """Texts whose n-grams are counted once, however many baselines are fitted on them."""

    def __init__(self) -> None:
        self.counters = {kind: NgramCounter(kind) for kind in NGRAMS}

    def names(self, texts: Sequence[str]) -> Names:
        """Return the n-grams that at least two texts have; if a kind has none, all n-grams."""
        for least in (2, 1):
            names = {
                k: counter.frequent_ngrams(texts, least) for k, counter in self.counters.items()
            }
            if all(names.values()):
                return names
        raise WarmstartError(f"none of the {len(texts)} training texts holds a word")

    def counting_s(self, texts: Sequence[str]) -> float:
        """Return how long it takes to count texts, or took when they were counted."""
        return sum(counter.counting_s(texts) for counter in self.counters.values())


class BaselineTexts:
    """Labelled texts that are read once, whatever is then fitted on them.

    Nothing is random and the order of the texts does not matter, so that a baseline is fitted once
    for each value of C. Texts to predict are read once, too.
    """

    def __init__(
        self, texts: Sequence[str], classes: Sequence[Any], balance: Balance, counted: CountedTexts
    ) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        rows = sorted(zip(texts, classes, strict=True))
        self.texts, self.classes = [text for text, _ in rows], [number for _, number in rows]
        self._balance, self._counted = balance, counted
        counting_s, started = counted.counting_s(self.texts), time.monotonic()
        self._names = counted.names(self.texts)
        counts = self._counts(self.texts)
        self._weighting = {
            kind: TfidfTransformer(sublinear_tf=True).fit(counts[kind]) for kind in NGRAMS
        }
        self.columns = self._weigh(counts)
        idf = {kind: weighting.idf_ for kind, weighting in self._weighting.items()}
        self.features = _new_features(self._names, idf)
        self.read_s = counting_s + time.monotonic() - started
        self._predicted: dict[tuple[str, ...], Any] = {}
        self._fitted: dict[float, tuple[TfidfModel, float]] = {}

    def fit(self, c: float) -> tuple[TfidfModel, float]:
        """Return the baseline of a value of C, and the seconds that it takes to train."""
        if c not in self._fitted:
            started = time.monotonic()
            model = fit_logistic(self.columns, self.classes, c, self._balance)
            elapsed_s = self.read_s + time.monotonic() - started
            self._fitted[c] = TfidfModel(features=self.features, model=model), elapsed_s
        return self._fitted[c]

    def columns_of(self, texts: Sequence[str]) -> Any:
        """Return the features of texts to predict, equal to those that `features` computes."""
        key = tuple(texts)
        if key not in self._predicted:
            self._predicted[key] = self._weigh(self._counts(texts))
        return self._predicted[key]

    def _counts(self, texts: Sequence[str]) -> dict[str, Any]:
        counters = self._counted.counters
        return {kind: counters[kind].columns(texts, self._names[kind]) for kind in NGRAMS}

    def _weigh(self, counts: Mapping[str, Any]) -> Any:
        """Return the features of texts; their counts are overwritten."""
        from scipy.sparse import hstack

        weighted = [self._weighting[kind].transform(counts[kind], copy=False) for kind in NGRAMS]
        return hstack(weighted, "csr")


def _new_features(names: Names, idf: Mapping[str, Any]) -> "FeatureUnion":
    """Return a feature extractor with these n-grams and inverse document frequencies."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    vectorizers = [
        (kind, TfidfVectorizer(**options, sublinear_tf=True, vocabulary=names[kind]))
        for kind, options in NGRAMS.items()
    ]
    for kind, vectorizer in vectorizers:
        vectorizer.idf_ = idf[kind]
    return FeatureUnion(vectorizers)


class TfidfBaseline:
    """The baseline of a comparison. Its cells share the counts of n-grams, and nothing else."""

    name, task, arm = "tf-idf", "tfidf", "tfidf"
    description = (
        "counts of words and characters with logistic regression, without a neural network"
    )

    def __init__(self, num_classes: int, balance: Balance, counted: CountedTexts) -> None:
        self._num_classes, self._balance = num_classes, balance
        self._counted = counted
        self._latest: dict[tuple[tuple[str, int], ...], BaselineTexts] = {}

    def settings(self, trials: int) -> list[float]:
        """Return the first `trials` values of C, the inverse of regularisation."""
        if not 1 <= trials <= len(STRENGTHS):
            raise WarmstartError(f"trials={trials} must be from 1 to {len(STRENGTHS)}")
        return list(STRENGTHS[:trials])

    def describe_setting(self, value: float) -> str:
        """Write a value of C."""
        return f"C {value:g}"

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline with a value of C."""
        texts = self._read(train)
        model, elapsed_s = texts.fit(value)

        def outputs(rows: Dataset) -> NDArray[np.float64]:
            return class_shares(model.model, texts.columns_of(rows.texts), self._num_classes)

        return FittedBaseline(value, outputs, partial(save_baseline, model), elapsed_s)

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return the seconds that it takes to count the n-grams of texts."""
        return self._counted.counting_s(texts)

    def _read(self, train: Dataset) -> BaselineTexts:
        """Return the training texts, read only if they differ from those of the latest cell."""
        key = tuple(sorted(zip(train.texts, train.targets, strict=True)))
        if key not in self._latest:
            self._latest = {
                key: BaselineTexts(train.texts, train.targets, self._balance, self._counted)
            }
        return self._latest[key]


class TfidfTask(LinearTask):
    """TF-IDF and logistic regression, as `compare` fits them."""

    name = "tfidf"
    description = "a TF-IDF classifier"

    def read_model(self, run: SavedRun) -> TfidfModel:
        return read_baseline(run)


@dataclass(frozen=True)
class CountedText:
    """The n-grams of one text."""

    ids: Ints  # distinct
    counts: Ints
    elapsed_s: float  # to count them


class NgramCounter:
    """Counts the n-grams of one kind. Their ids depend on the texts counted before."""

    def __init__(self, kind: str) -> None:
        from sklearn.feature_extraction.text import CountVectorizer  # when needed: it takes long

        self._ids: defaultdict[str, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__
        self._counted: dict[str, CountedText] = {}
        analyze = CountVectorizer(**NGRAMS[kind]).build_analyzer()
        self._ids_of: Callable[[str], Ints] = partial(self._analyze, analyze)
        if kind == "characters":  # no n-gram crosses white space, and words recur
            self._ids_of = partial(_join_words, lru_cache(CACHED_WORDS)(self._ids_of))

    def frequent_ngrams(self, texts: Sequence[str], least: int) -> list[str]:
        """Return the n-grams that at least `least` of the texts have, in alphabetical order."""
        frequencies = np.bincount(_concatenate([text.ids for text in self._count_all(texts)]))
        names = list(self._ids)
        return sorted(names[number] for number in np.flatnonzero(frequencies >= least))

    def columns(self, texts: Sequence[str], names: Sequence[str]) -> "csr_matrix":
        """Return how often each text (a row) has each of some n-grams (a column)."""
        from scipy.sparse import csr_matrix

        counted = self._count_all(texts)  # which may add n-grams
        column_of = np.full(len(self._ids), -1, np.int32)
        column_of[[self._ids[name] for name in names]] = np.arange(len(names))
        columns, counts = [], []  # row by row: all n-grams of all texts would take twice the memory
        for text in counted:
            numbers = column_of[text.ids]
            columns.append(numbers[numbers >= 0])
            counts.append(text.counts[numbers >= 0])
        starts = np.cumsum([0, *map(len, columns)])
        matrix = csr_matrix(
            (_concatenate(counts).astype(np.float64), _concatenate(columns), starts),
            shape=(len(texts), len(names)),
        )
        matrix.sort_indices()
        return matrix

    def counting_s(self, texts: Sequence[str]) -> float:
        """Return how long it takes to count texts, or took when they were counted."""
        return sum(text.elapsed_s for text in self._count_all(texts))

    def _count_all(self, texts: Sequence[str]) -> list[CountedText]:
        for text in texts:
            if text not in self._counted:
                self._counted[text] = self._count(text)
        return [self._counted[text] for text in texts]

    def _count(self, text: str) -> CountedText:
        started = time.monotonic()
        ids, counts = np.unique(self._ids_of(text), return_counts=True)
        narrow = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        return CountedText(ids, narrow, time.monotonic() - started)

    def _analyze(self, analyze: Callable[[str], Iterable[str]], text: str) -> Ints:
        return np.fromiter(map(self._ids.__getitem__, analyze(text)), np.int32)


def _join_words(ids_of: Callable[[str], Ints], text: str) -> Ints:
    return _concatenate([ids_of(word) for word in text.split()])


def _concatenate(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
