"""What several models say of unlabelled texts together, as labels that another model learns.

A model of few labels is wrong where another is not. What they agree on is right more often than
either, and one model can be taught it: by models that are given (`finetune --teacher`), or by
itself (self-training). A text that a model is taught is read with parts cropped and masked, so that
it learns to give the same answer to less (consistency; Xie et al., 2020).
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.copies import find_matches
from warmstart.data.corpus import read_passages
from warmstart.data.fingerprints import Fingerprints, fingerprint, fingerprints_of
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.evaluation.calibration import fit_temperature
from warmstart.jsonfiles import from_json
from warmstart.runs.facts import InputFile, InputFiles
from warmstart.runs.saved import SavedRun
from warmstart.seeds import derive_seed
from warmstart.settings.training import Tuning
from warmstart.textfiles import is_one_of
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import finetuning_epochs

Floats = NDArray[np.float64]
Shares = Mapping[str, float]  # of every class, in a text
LEAST = 1e-6  # a smaller share is not told from it
SHARPNESS = 2.0  # of log-probabilities that are scaled to spread by one
ALIGNMENTS = 100  # after which the classes have their shares to three digits
LEAST_CROP = 0.5  # of a text that is taught
MASK_RATE = 0.15  # of its tokens


def average_views(views: Sequence[Floats]) -> Floats:
    """Return the geometric mean of probabilities, as averaged logits give it: (texts, C)."""
    return _softmax(np.mean([_logits(view) for view in views], axis=0))


@dataclass(frozen=True)
class View:
    """What a kind of model says of texts without a label, and of labelled ones that it did not see.

    Either has the probability of every class.
    """

    texts: Floats  # (texts, C)
    held_out: Floats | None = None  # (labels, C); None: too few labels

    def weight(self, classes: Sequence[int] | NDArray[np.int64]) -> float:
        """Return by how much its logits should spread, so that it is as sure as it is right."""
        if self.held_out is None:
            return 1.0
        temperature = fit_temperature(classes, self.held_out)
        return float(_centre(_logits(self.texts)).std()) / temperature


def label_folds(classes: Sequence[int] | NDArray[np.int64], num: int) -> NDArray[np.int64] | None:
    """Return the fold of each label, each class spread evenly; None: a class may be left out."""
    counts = np.bincount(classes)
    if num < 2 or (counts[counts > 0] < 2).any():
        return None
    numbers = np.empty(len(classes), np.int64)
    numbers[np.argsort(classes, kind="stable")] = np.arange(len(classes)) % num
    return numbers


def agree(views: Sequence[Floats], weights: Sequence[float], priors: Floats) -> Floats:
    """Return the probability of every class by several models together: (texts, C).

    Their logits, scaled to spread by their weights, are added up as if they erred independently.
    The sum is scaled to one spread, because they do not err independently. Then each class gets
    its share of the texts (distribution alignment; Berthelot et al., 2020), as a model of few
    labels may prefer one of them everywhere.
    """
    scaled = [w * _scale(_logits(view)) for w, view in zip(weights, views, strict=True)]
    logits = SHARPNESS * _scale(np.sum(scaled, axis=0))
    shift = np.zeros(logits.shape[1])
    for _ in range(ALIGNMENTS):
        shift += np.log(priors / np.maximum(_softmax(logits + shift).mean(axis=0), LEAST))
    return _softmax(logits + shift)


def class_priors(classes: Sequence[int] | NDArray[np.int64], num_classes: int) -> Floats:
    """Return the share of each class among labels, by Laplace's rule: (C,)."""
    counts = np.bincount(classes, minlength=num_classes) + 1.0
    priors: Floats = counts / counts.sum()
    return priors


def surest_rows(shares: Floats, part: float) -> list[int]:
    """Return the surest part of the texts of every class: an easy class drives out no other."""
    predicted, certainty = shares.argmax(axis=1), shares.max(axis=1)
    chosen: list[int] = []
    for number in range(shares.shape[1]):
        rows = np.flatnonzero(predicted == number)
        surest = rows[np.argsort(-certainty[rows], kind="stable")]
        chosen += surest[: round(part * len(rows))].tolist()
    return sorted(chosen)


def teach(texts: Dataset, shares: Floats, classes: Sequence[str]) -> Dataset:
    """Return texts labelled by the probabilities of their classes."""
    names = [dict(zip(classes, row, strict=True)) for row in shares.tolist()]
    numbers = shares.argmax(axis=1).tolist()
    labels = tuple(classes[number] for number in numbers)
    return replace(texts, labels=labels, targets=tuple(numbers), shares=tuple(names))


def join_taught(labelled: Dataset, taught: Dataset, tuning: Tuning) -> Dataset:
    """Return labelled texts and taught ones, with the columns that both have.

    A labelled text is there as often as it would be read without the others.
    """
    certain = labelled
    if not labelled.shares:
        certain = replace(labelled, shares=tuple({label: 1.0} for label in labelled.labels))
    usual = finetuning_epochs(len(labelled), tuning)
    repeats = max(1, round(usual / finetuning_epochs(len(labelled) + len(taught), tuning)))
    parts, names = [*repeats * [certain], taught], certain.columns().keys() & taught.columns()
    joined = join_datasets([_only(part, names) for part in parts])
    return replace(joined, skipped=labelled.skipped, unlabelled=labelled.unlabelled)


def _only(data: Dataset, names: Collection[str]) -> Dataset:
    """Return a dataset without its other columns."""
    columns = {name: getattr(data, name) for name in names}
    return Dataset(data.file, files=data.files, **columns)


def perturb(texts: Dataset, tokenizer: Tokenizer, seed: int) -> Dataset:
    """Return encoded texts, each cropped to one piece at random, and some of its tokens masked."""
    generator = np.random.default_rng(derive_seed(seed, "perturbed"))
    front = len(tokenizer.start)
    ids = tuple(_perturb(row, front, tokenizer.mask, generator) for row in texts.ids)
    return replace(texts, ids=ids)


def _perturb(
    ids: Sequence[int], front: int, mask: int | None, generator: np.random.Generator
) -> list[int]:
    inner = np.array(ids[front:-1], np.int64)
    length = max(1, round(len(inner) * generator.uniform(LEAST_CROP, 1)))
    first = int(generator.integers(len(inner) - length + 1)) if len(inner) else 0
    inner = inner[first : first + length]
    if mask is not None:
        inner = np.where(generator.random(len(inner)) < MASK_RATE, mask, inner)
    return [*ids[:front], *inner.tolist(), *ids[-1:]]


def sample_texts(texts: Iterable[str], limit: int, known: Fingerprints) -> list[str]:
    """Return at most so many different texts, none of them a copy or near-copy of a known one.

    They are chosen by their content, so the order of the files does not matter.
    """
    by_code: dict[int, str] = {}
    heap: list[int] = []  # of negative codes, the largest code first
    for text in filter(str.strip, texts):
        code = fingerprint(text)
        if code in by_code or (len(heap) == limit and -heap[0] <= code):
            continue
        by_code[code] = text
        heapq.heappush(heap, -code)
        if len(heap) > limit:
            del by_code[-heapq.heappop(heap)]
    sampled = [by_code[code] for code in sorted(by_code)]
    is_known = find_matches(fingerprints_of(sampled), known).both
    return [text for text, matches in zip(sampled, is_known, strict=True) if not matches]


def pretraining_files(sources: Sequence[SavedRun]) -> tuple[InputFile, ...]:
    """Return the files that runs were pretrained on, as they are recorded."""
    listed: list[InputFile] = []
    for source in sources:
        recorded = source.folder.read_json(source.folder.data_file)
        listed += from_json(InputFiles, {"files": recorded.get("files", [])}, source.path).files
    return tuple(dict.fromkeys(listed))


def unchanged_files(files: Iterable[InputFile]) -> Iterator[Path]:
    """Yield the files that are still where they were, with the same content."""
    for file in files:
        if is_one_of(path := Path(file.path), (file.sha256, *file.earlier)):
            yield path


def pretraining_texts(files: Iterable[Path]) -> Iterator[str]:
    """Yield the documents of the files that a run was pretrained on; a very long one in parts."""
    for passage in chain.from_iterable(map(read_passages, files)):
        yield "\n".join(passage.rows)


def share_rows(shares: Sequence[Shares], classes: Sequence[str]) -> Iterator[NDArray[Any]]:
    """Yield the share of each class in every text: (C,)."""
    for row in shares:
        yield np.array([row.get(name, 0.0) for name in classes], np.float32)


def _logits(shares: Floats) -> Floats:
    logits = np.log(np.maximum(shares, LEAST))
    centred: Floats = logits - logits.mean(axis=1, keepdims=True)
    return centred


def _scale(logits: Floats) -> Floats:
    """Return logits of each class with mean zero, all together with variance one."""
    centred = _centre(logits)
    scaled: Floats = centred / max(float(centred.std()), 1e-12)
    return scaled


def _centre(logits: Floats) -> Floats:
    centred: Floats = logits - logits.mean(axis=0)
    return centred


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
