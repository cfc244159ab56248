"""Answer questions by words that they share with the passage: the baselines of `answer`.

A part of a passage is the better, the more words of the question stand near it, rare ones above
all, and the likelier its shape is after the first word of the question: when asks for numbers.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from warmstart.data.labelled import Dataset
from warmstart.data.questions import PAIR
from warmstart.data.tagged import find_words
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.answer import SURE, AnswerTask, best_threshold
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.labelled_data import read_labelled_file, rows_seen
from warmstart.tasks.spans import MOST_SPANS, SpanScores
from warmstart.tasks.task import Task
from warmstart.tasks.text_model import Predictions, TextModel
from warmstart.tasks.word_features import word_shape

TASK = AnswerTask()
FILE = "overlap.json"
REACHES = (8.0, 16.0, 4.0, 32.0, 2.0, 12.0, 6.0, 1.0, 64.0)  # in words, in the order of trial
OVERLAP_WEIGHT = 8.0  # of the share of the question that is near, against the log of a shape
MOST_WORDS = 12  # of a part
MARK = re.compile(r"[.!?]")  # no part goes beyond the end of a sentence


@dataclass(frozen=True, kw_only=True)
class OverlapModel:
    """overlap.json: how rare words are, which shapes answers have, how near is near."""

    idf: dict[str, float]
    shapes: dict[str, dict[str, float]]  # log probability by the first word of the question
    reach: float  # words over which a word of the question loses half of its weight
    threshold: float
    longest: int  # words of an answer

    def shift(self, threshold: float) -> "OverlapModel":
        """Return the model with another threshold."""
        return replace(self, threshold=threshold)

    @cached_property
    def _rarest(self) -> float:
        return max(self.idf.values(), default=1.0)

    def scores(self, question: str, passage: str) -> SpanScores:
        """Score the parts of a passage of a few words."""
        spans = find_words(passage)
        words = [passage[a:b].lower() for a, b in spans]
        asked = {w for w in _words(question) if w in words}
        weights = {w: self.idf.get(w, self._rarest) for w in _words(question)}
        near = self._nearness(words, {w: weights[w] for w in asked}, sum(weights.values()))
        shapes = self.shapes.get(_first_word(question)) or self.shapes.get("", {})
        parts = [
            (OVERLAP_WEIGHT * float(near[first : last + 1].mean()) + shapes[shape], first, last)
            for first, last, shape in _parts(passage, spans, self.longest)
            if shape in shapes and asked.isdisjoint(words[first : last + 1])
        ]
        best = sorted(parts, key=lambda part: (-part[0], part[1:]))[:MOST_SPANS]
        places = [(spans[first][0], spans[last][1]) for _, first, last in best]
        odds = np.array([score for score, _, _ in best], np.float64) - self.threshold
        return SpanScores(passage, np.array(places, np.int64).reshape(-1, 2), odds)

    def _nearness(
        self, words: Sequence[str], asked: Mapping[str, float], total: float
    ) -> NDArray[np.float64]:
        """Return for each word how much of the question stands near it, as a share."""
        places = np.arange(len(words))
        near = np.zeros(len(words))
        for word, weight in asked.items():
            at = np.array([i for i, other in enumerate(words) if other == word])
            distance = np.abs(places[:, None] - at).min(1)
            near += weight * 0.5 ** (distance / self.reach)
        return near / max(total, 1e-9)

    def outputs(self, data: Dataset) -> NDArray[Any]:
        """Return the scores of the parts for every question."""
        outputs = np.empty(len(data), object)
        for number, pair in enumerate(zip(data.texts, data.seconds or (), strict=True)):
            outputs[number] = self.scores(*pair)
        return outputs

    def save(self, run: RunFolder) -> None:
        """Write the model to its run folder; its weights are those of the words."""
        write_json(run.path / FILE, asdict(self))
        save_weights(run.weights_file, {"idf": torch.tensor(list(self.idf.values()))})


def _words(text: str) -> list[str]:
    return [text[a:b].lower() for a, b in find_words(text)]


def _first_word(question: str) -> str:
    return next(iter(_words(question)), "")


def _shape_of(words: Sequence[str]) -> str:
    return " ".join(map(word_shape, words))


def _parts(
    passage: str, spans: Sequence[tuple[int, int]], longest: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the first and the last word of each part of a passage, and its shape."""
    words = [passage[a:b] for a, b in spans]
    for first in range(len(words)):
        for last in range(first, min(first + longest, len(words))):
            if MARK.fullmatch(words[last]):
                break
            yield first, last, _shape_of(words[first : last + 1])


def fit_overlap(train: Dataset, reach: float) -> OverlapModel:
    """Count the words of passages and the shapes of answers, and choose the threshold."""
    passages = [set(_words(passage)) for passage in dict.fromkeys(train.seconds or ())]
    counts = Counter(word for words in passages for word in words)
    idf = {word: log((1 + len(passages)) / (1 + num)) + 1 for word, num in sorted(counts.items())}
    shapes: dict[str, Counter[str]] = defaultdict(Counter)
    longest = 1
    for question, answers in zip(train.texts, train.labels, strict=True):
        for _, text in answers:
            words = [text[a:b] for a, b in find_words(text)]
            longest = max(longest, len(words))
            for key in (_first_word(question), ""):
                shapes[key][_shape_of(words)] += 1
    shares = {
        key: {shape: log(num / found.total()) for shape, num in found.items()}
        for key, found in sorted(shapes.items())
    }
    model = OverlapModel(
        idf=idf, shapes=shares, reach=reach, threshold=0.0, longest=min(longest, MOST_WORDS)
    )
    return model.shift(best_threshold(model.outputs(train), train.targets))


class SpanOverlap:
    """The part with the best overlap, as a comparison fits it."""

    name, task, arm = "span overlap", "span-overlap", "tfidf"
    description = (
        "the part of the passage near which most words of the question stand, weighted by TF-IDF, "
        "of a shape that answers to such questions have, without a neural network"
    )

    def settings(self, trials: int) -> list[float]:
        """Return the first `trials` reaches."""
        return list(REACHES[:trials])

    def describe_setting(self, value: float) -> str:
        """Write a reach."""
        return f"reach {value:g} words"

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return zero: nothing is read once for all fits."""
        return 0.0

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline with a reach."""
        started = time.monotonic()
        model = fit_overlap(train, value)
        return FittedBaseline(value, model.outputs, model.save, time.monotonic() - started)


class NoAnswer(SpanOverlap):
    """No question is answered."""

    name = "no answer"
    description = "answers no question: what is right wherever a passage has no answer"

    def settings(self, trials: int) -> list[float]:
        return [0.0]

    def describe_setting(self, value: float) -> str:
        return "nothing to choose"

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        model = OverlapModel(idf={}, shapes={}, reach=1.0, threshold=SURE, longest=1)
        return FittedBaseline(value, model.outputs, model.save, 0.0)


@dataclass(frozen=True, kw_only=True)
class OverlapAnswerer(TextModel):
    """A saved baseline in use."""

    model: OverlapModel
    classes: tuple[str, ...] = ()
    pair_names: tuple[str, str] = PAIR

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("answer",)

    def answer(self, texts: Sequence[str], texts2: Sequence[str]) -> list[Any]:
        """Answer questions, each by a part of its passage."""
        return self.predict(texts, texts2)

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Answer questions (`texts`), each by a part of its passage (`texts2`)."""
        texts, texts2 = self.check_texts(texts, texts2)
        outputs = self.model.outputs(Dataset(texts=texts, seconds=texts2))
        return Predictions(TASK.predictions(outputs, {}))


class SpanOverlapTask(Task):
    """Words that questions and passages share, as `compare` counts them."""

    name = "span-overlap"
    description = "a question answerer by shared words"
    command = "compare"
    hub_name = "question-answering"
    has_backbone = False

    def empty_model(self, run: SavedRun) -> nn.Module:
        raise WarmstartError(f"{run.path} is {self.description}, not a Transformer")

    def read_model(self, run: SavedRun) -> OverlapModel:
        """Return the model of a run."""
        file = run.folder.path / FILE
        return from_json(OverlapModel, run.folder.read_json(file), file)

    def open(self, run: SavedRun, runtime: Runtime) -> TextModel:
        return OverlapAnswerer(
            name=str(run.path),
            description=self.description,
            reads_pairs=True,
            model=self.read_model(run),
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        data = read_labelled_file(TASK, settings.test or "", settings.test_labels, settings)
        outputs = self.read_model(run).outputs(data)
        seen = rows_seen(data, run.texts_seen(), settings.pieces)
        return TASK.all_scores(outputs, TASK.targets(data, run.config), run.config, seen)

    def usage(self, path: Path) -> str:
        return TASK.usage(path)
