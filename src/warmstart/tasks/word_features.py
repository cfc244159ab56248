"""Features of words and logistic regression, an honest baseline for tags.

A word is known by itself, its shape, its beginning and end, its neighbours, and by the clusters
that it and they belong to: words that occur beside the same words in unlabelled text. The best
legal sequence of tags is then chosen as a Transformer's is. A run of this kind has no Transformer:
model.safetensors has the weights, features.json what each of them is for.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from warmstart.data.labelled import Dataset
from warmstart.data.tagged import find_words
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.labelled_data import read_labelled_file, rows_seen
from warmstart.tasks.tag import TagTask
from warmstart.tasks.tagger import TaggedText, find_entities
from warmstart.tasks.task import Task
from warmstart.tasks.text_model import Predictions, TextModel

Clusters = Mapping[str, Sequence[int]]  # of frequent words, from few large ones to many small ones
Ints = NDArray[np.int32]
TAG = TagTask()
STRENGTHS = (3.0, 10.0, 1.0, 30.0, 0.3, 0.1, 100.0, 0.03, 0.01)  # of C, in the order of trial
MAX_ITERATIONS, TOLERANCE = 300, 1e-4
LEAST_COUNT = 2  # of a feature in the training words
EDGE = ("<s>", "</s>")  # what stands before and after a sentence
AFFIXES = (1, 2, 3, 4)  # letters of a beginning and of an end
NUM_CLUSTERS = (32, 128, 512)
MOST_CLUSTERED, MOST_CONTEXTS, NUM_DIMENSIONS = 10_000, 1_000, 64
LEAST_OCCURRENCES = 5  # of a word that belongs to a cluster


def word_shape(word: str) -> str:
    """Return the shape of a word: McDonald-7 is XxXxx-d."""
    shape = "".join(
        "X" if char.isupper() else "x" if char.islower() else "d" if char.isdigit() else char
        for char in word
    )
    kept = (char for i, char in enumerate(shape) if shape[max(0, i - 2) : i] != char * 2)
    return "".join(kept)


def sentence_features(words: Sequence[str], clusters: Clusters) -> Iterator[list[str]]:
    """Yield the features of each word of a sentence."""
    lower = [EDGE[0], EDGE[0], *(word.lower() for word in words), EDGE[1], EDGE[1]]
    shapes = ["", "", *map(word_shape, words), "", ""]
    for at, word in enumerate(words, 2):
        around = {offset: lower[at + offset] for offset in (-2, -1, 0, 1, 2)}
        features = [f"w{offset}={text}" for offset, text in around.items()]
        features += [f"s{offset}={shapes[at + offset]}" for offset in (-1, 0, 1)]
        features += [
            f"w-1,0={around[-1]} {around[0]}",
            f"w0,1={around[0]} {around[1]}",
            f"W={word}",
        ]
        features += [
            f"{end}={text}"
            for n in AFFIXES
            for end, text in (("<", around[0][:n]), (">", around[0][-n:]))
        ]
        features += [
            f"c{offset}.{level}={number}"
            for offset in (-1, 0, 1)
            for level, number in enumerate(clusters.get(around[offset], ()))
        ]
        yield features


def cluster_words(sentences: Iterable[Sequence[str]]) -> dict[str, list[int]]:
    """Return the clusters of frequent words, by the words that stand beside them."""
    from scipy.sparse import csr_matrix
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    texts = [[EDGE[0], *(word.lower() for word in words), EDGE[1]] for words in sentences]
    counts = Counter(chain.from_iterable(texts))
    names = [w for w, n in counts.most_common(MOST_CLUSTERED) if n >= LEAST_OCCURRENCES]
    if len(names) <= 2 * NUM_CLUSTERS[0]:
        return {}
    numbers = {name: number for number, name in enumerate(names)}
    contexts = min(MOST_CONTEXTS, len(names))
    pairs: list[tuple[int, int]] = []
    for words in texts:
        ids = [numbers.get(word, -1) for word in words]
        for before, after in pairwise(ids):
            if before >= 0 and 0 <= after < contexts:
                pairs.append((before, contexts + after))
            if after >= 0 and 0 <= before < contexts:
                pairs.append((after, before))
    shape = (len(names), 2 * contexts)
    table = csr_matrix((np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), shape).tocoo()
    of_words, of_contexts = (np.asarray(table.sum(axis)).ravel() for axis in (1, 0))
    expected = of_words[table.row] * of_contexts[table.col] / table.sum()
    table.data = np.maximum(np.log(table.data / expected), 0)  # pointwise mutual information
    vectors = TruncatedSVD(NUM_DIMENSIONS, random_state=0).fit_transform(table.tocsr())
    sizes = [size for size in NUM_CLUSTERS if 2 * size < len(names)]
    levels = [
        MiniBatchKMeans(size, random_state=0, n_init=1).fit_predict(normalize(vectors))
        for size in sizes
    ]
    return {name: [int(of[row]) for of in levels] for row, name in enumerate(names)}


@dataclass(frozen=True)
class FeatureModel:
    """A fitted baseline: the weight of every feature for every tag."""

    numbers: Mapping[str, int]  # of the features
    clusters: Clusters
    weights: NDArray[np.float64]  # (features + 1, C), the last of words without features
    bias: NDArray[np.float64]  # (C,); minus infinity for tags that were not in the training words

    def probabilities(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the probability of each tag for each word of a sentence: (words, C)."""
        logits = np.tile(self.bias, (len(words), 1))
        for row, features in enumerate(sentence_features(words, self.clusters)):
            known = [self.numbers[name] for name in features if name in self.numbers]
            logits[row] += self.weights[known].sum(0)
        shares = np.exp(logits - logits.max(1, keepdims=True, initial=-np.inf))
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def outputs(self, texts: Dataset) -> NDArray[Any]:
        """Return the probabilities of the words of every text."""
        outputs = np.empty(len(texts), object)
        outputs[:] = [self.probabilities(words) for words in words_of(texts)]
        return outputs


def words_of(texts: Dataset) -> Iterator[list[str]]:
    """Yield the words of every text."""
    for text, spans in zip(texts.texts, texts.words, strict=True):
        yield [text[start:end] for start, end in spans]


class WordFeatureBaseline:
    """The baseline of a comparison of taggers."""

    name, task, arm = "word features", "word-features", "tfidf"
    description = (
        "words, their shapes, ends, neighbours and clusters, with logistic regression and the best "
        "legal sequence of tags, without a neural network"
    )

    def __init__(self, classes: Sequence[str], unlabelled: Iterable[str] = ()) -> None:
        self._classes, self._unlabelled = list(classes), unlabelled
        self._latest: dict[tuple[Any, ...], FittedBaseline] = {}
        self._clusters: Clusters | None = None

    def settings(self, trials: int) -> list[float]:
        """Return the first `trials` values of C, the inverse of regularisation."""
        return list(STRENGTHS[:trials])

    def describe_setting(self, value: float) -> str:
        """Write a value of C."""
        return f"C {value:g}"

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return zero: nothing is read once for all fits but the clusters."""
        return 0.0

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline with a value of C, once for the same sentences in any order."""
        sentences = zip(
            train.texts, map(tuple, train.words), map(tuple, train.targets), strict=True
        )
        key = value, *sorted(sentences)
        if key not in self._latest:
            self._latest = {key: self._fit(train, value)}
        return self._latest[key]

    def _fit(self, train: Dataset, value: float) -> FittedBaseline:
        clusters, started = self.clusters, time.monotonic()
        model = fit_features(train, self._classes, clusters, value)
        elapsed_s = time.monotonic() - started
        return FittedBaseline(value, model.outputs, partial(save_features, model), elapsed_s)

    @property
    def clusters(self) -> Clusters:
        """Return the clusters of the words of the unlabelled text."""
        if self._clusters is None:
            sentences = ([t[a:b] for a, b in find_words(t)] for t in self._unlabelled)
            self._clusters = cluster_words(sentences)
        return self._clusters


def fit_features(
    train: Dataset, classes: Sequence[str], clusters: Clusters, c: float
) -> FeatureModel:
    """Fit the weights of the features of training words, regularised by C."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    ids: defaultdict[str, int] = defaultdict()
    ids.default_factory = ids.__len__
    by_word = [
        [ids[name] for name in features]
        for words in words_of(train)
        for features in sentence_features(words, clusters)
    ]
    flat = np.fromiter(chain.from_iterable(by_word), np.int32)
    starts = np.cumsum([0, *map(len, by_word)])
    counts = np.bincount(flat, minlength=len(ids))
    table = csr_matrix((np.ones(len(flat)), flat, starts), (len(by_word), len(ids)))
    kept = np.flatnonzero(counts >= LEAST_COUNT)
    names = list(ids)
    tags = {name: number for number, name in enumerate(classes)}
    targets = [tags[tag] for tag in chain.from_iterable(train.targets)]
    weights, bias = np.zeros((len(kept), len(classes))), np.full(len(classes), -np.inf)
    present = sorted(set(targets))
    bias[present] = 0.0
    if len(present) > 1:
        model = LogisticRegression(C=c, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
        with threadpool_limits(1, "blas"):
            model.fit(table[:, kept], targets)
        rows = present[1:] if len(present) == 2 else present  # two classes share one row
        weights[:, rows], bias[rows] = model.coef_.T, model.intercept_
    return FeatureModel({names[n]: i for i, n in enumerate(kept)}, clusters, weights, bias)


@dataclass(frozen=True, kw_only=True)
class WordFeaturesFile:
    """features.json: the feature of each weight, in order, and the clusters of words."""

    features: tuple[str, ...]
    clusters: dict[str, tuple[int, ...]]


def save_features(model: FeatureModel, run: RunFolder) -> None:
    """Write a fitted baseline to its run folder."""
    names = {"features": list(model.numbers), "clusters": dict(model.clusters)}
    write_json(run.path / "features.json", names)
    bias = np.where(np.isfinite(model.bias), model.bias, np.finfo(np.float32).min)
    tensors = {"weights": torch.tensor(model.weights), "bias": torch.tensor(bias)}
    save_weights(run.weights_file, tensors)


def read_features(run: SavedRun) -> FeatureModel:
    """Return the baseline of a run, which predicts what the saved one did."""
    file = run.folder.path / "features.json"
    names = from_json(WordFeaturesFile, run.folder.read_json(file), file)
    arrays = {name: tensor.double().numpy() for name, tensor in run.weights.items()}
    shapes = {"weights": (len(names.features), len(run.classes)), "bias": (len(run.classes),)}
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise WarmstartError(f"{run.weights_file} does not fit {file} and the tags in config.json")
    numbers = {name: number for number, name in enumerate(names.features)}
    return FeatureModel(numbers, names.clusters, arrays["weights"], arrays["bias"])


@dataclass(frozen=True, kw_only=True)
class WordFeatureTagger(TextModel):
    """A saved baseline in use."""

    model: FeatureModel
    classes: tuple[str, ...]

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Return the entities of every text, with their characters in it."""
        texts, texts2 = self.check_texts(texts, texts2)
        words = list(map(find_words, texts))
        outputs = self.model.outputs(Dataset(texts=texts, words=words))
        tagged = TAG.predictions(outputs, {"classes": self.classes})
        return Predictions(
            TaggedText(tuple(find_entities(text, of_text, tags, shares)))
            for text, of_text, (tags, shares) in zip(texts, words, tagged, strict=True)
        )


class WordFeaturesTask(Task):
    """Features of words and logistic regression, as `compare` fits them."""

    name = "word-features"
    description = "a tagger by features of words"
    command = "compare"
    hub_name = "token-classification"
    has_backbone = False

    def empty_model(self, run: SavedRun) -> nn.Module:
        raise WarmstartError(f"{run.path} is {self.description}, not a Transformer")

    def open(self, run: SavedRun, runtime: Runtime) -> TextModel:
        return WordFeatureTagger(
            name=str(run.path),
            description=self.description,
            reads_pairs=False,
            model=read_features(run),
            classes=run.classes,
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        data = read_labelled_file(TAG, settings.test or "", settings.test_labels, settings)
        targets = TAG.targets(data, run.config)
        outputs = read_features(run).outputs(data)
        seen = rows_seen(data, run.texts_seen(), settings.pieces)
        return TAG.all_scores(outputs, targets, run.config, seen)

    def usage(self, path: Path) -> str:
        return TAG.usage(path)
