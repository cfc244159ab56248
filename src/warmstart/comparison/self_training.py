"""The arm that teaches itself: labels, and what it then says of unlabelled texts.

Models that err differently label unlabelled texts together: several fine-tunings, and regressions
on the vectors of the frozen backbone and on the dimensions of LSA. Each learns the surest part of
each class with the labels, and they label the texts again, round by round. One last fine-tuning
learns from all that, so the model that is kept is as small as that of a warm arm.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.arms import (
    Splits,
    TrainedModel,
    TransformerArm,
    train_stably,
)
from warmstart.data.labelled import Dataset
from warmstart.model.models import Classifier
from warmstart.seeds import derive_seed
from warmstart.tasks.fitting import Start, build_model
from warmstart.tasks.frozen import FrozenVectors, standardise
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.logistic import class_shares, fit_logistic
from warmstart.tasks.lsa import fit_nested
from warmstart.tasks.teaching import (
    View,
    agree,
    average_views,
    class_priors,
    join_taught,
    label_folds,
    perturb,
    surest_rows,
    teach,
)
from warmstart.tasks.vectors import TextBatches
from warmstart.training.defaults import finetuning_epochs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Folds = Ints | None  # the fold of each label; None: too few labels
MOST_TEXTS = {"cuda": 8_192, "cpu": 1_024}  # that are labelled; more take longer and add little
WATCHED = 32  # labelled texts that a training is measured on which is only to vote
LSA_C, VECTORS_C = 0.3, 0.01  # of regressions: the defaults of the lsa and frozen arms


@dataclass(frozen=True)
class SelfTraining:
    """How a model teaches itself; parts are of the unlabelled texts, the surest first."""

    drafts: tuple[float, ...] = (0.2, 0.4, 0.6)  # that only regressions learn, round by round
    parts: tuple[float, ...] = (0.5, 0.8)  # that fine-tunings learn, the last of them alone
    voters: int = 5  # fine-tunings that label the texts first, each without a part of the labels
    students: int = 3  # fine-tunings that label them in the rounds between
    perturbs: bool = True  # whether fine-tunings read the texts cropped and masked


@dataclass(frozen=True)
class Regression:
    """A regression on the vectors of labelled and unlabelled texts, fitted in no time."""

    labelled: Floats  # (labels, D)
    pool: Floats  # (texts, D)
    fit: Callable[[Floats, Ints], Any]

    def said(self, classes: Ints, rows: Ints, taught: Ints, num_classes: int) -> Floats:
        """Return what it says of the texts when it knows the labels, and has learned some rows."""
        columns = np.concatenate([self.labelled, self.pool[rows]])
        model = self.fit(columns, np.concatenate([classes, taught]))
        return class_shares(model, self.pool, num_classes)

    def held_out(self, classes: Ints, folds: Folds, num_classes: int) -> Floats | None:
        """Return what is said of each label by a regression that does not know its fold."""
        if folds is None:
            return None
        shares = np.zeros((len(classes), num_classes))
        for fold in np.unique(folds):
            inside = folds != fold
            model = self.fit(self.labelled[inside], classes[inside])
            shares[~inside] = class_shares(model, self.labelled[~inside], num_classes)
        return shares


@dataclass(frozen=True)
class SelfArm(TransformerArm):
    """A Transformer that learns the labels, and those that it and others give to more texts."""

    pool: Dataset = field(default_factory=Dataset)  # unlabelled texts as the model reads them
    spaces: tuple[LatentSpace, ...] = ()  # of whose dimensions regressions label them, too
    rules: SelfTraining = SelfTraining()
    vectors: FrozenVectors = field(default_factory=FrozenVectors, compare=False)

    @property
    def start(self) -> str:
        return "warm"

    @property
    def num_taught_steps(self) -> int:
        """Return the optimizer steps on texts that it labelled, of all trainings for one model."""
        sizes = [max(1, round(part * len(self.pool))) for part in self.rules.parts]
        steps = [
            finetuning_epochs(size, self.tuning) * -(-size // self.tuning.batch_size)
            for size in sizes
        ]
        return self.rules.students * sum(steps[:-1]) + steps[-1]

    @property
    def num_texts_read(self) -> int:
        """Return how many texts are read to be labelled."""
        return (self.rules.students * len(self.rules.parts) + 1) * len(self.pool)

    def settings(self, trials: int) -> list[float]:
        """Return the default learning rate: to try others would take too long."""
        return super().settings(1)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Train one model at each learning rate."""
        for value in values:
            started = time.monotonic()
            train = self.self_labelled_texts(splits.train, value, seed)
            for model in super().fit(replace(splits, train=train), [value], seed):
                yield replace(model, elapsed_s=time.monotonic() - started)

    def self_labelled_texts(self, labelled: Dataset, rate: float, seed: int) -> Dataset:
        """Return labelled texts with the texts that the last model learns besides them."""
        watched = labelled.subset(range(min(WATCHED, len(labelled))))
        cell, classes = Splits(labelled, watched, None, temperature=1.0), np.array(labelled.targets)
        regressions, folds = self._regressions(cell, seed), label_folds(classes, self.rules.voters)
        none = np.zeros(0, np.int64)
        views = [
            *(
                View(
                    each.said(classes, none, none, self.num_classes),
                    each.held_out(classes, folds, self.num_classes),
                )
                for each in regressions
            ),
            self._voted_view(cell, folds, rate, seed),
        ]
        weights = [view.weight(classes) for view in views]
        said, priors = [view.texts for view in views], class_priors(classes, self.num_classes)
        shares = self.agreement(said, weights, priors)
        for number, part in enumerate((*self.rules.drafts, *self.rules.parts[:-1])):
            rows = surest_rows(shares, part)
            taught = shares[rows].argmax(axis=1)
            said[:-1] = [
                e.said(classes, np.array(rows), taught, self.num_classes) for e in regressions
            ]
            if number >= len(self.rules.drafts):
                train = self.taught_texts(labelled, shares, part, derive_seed(seed, number))
                said[-1] = self._vote(replace(cell, train=train), rate, derive_seed(seed, number))
            shares = self.agreement(said, weights, priors)
        return self.taught_texts(labelled, shares, self.rules.parts[-1], seed)

    @property
    def num_classes(self) -> int:
        return len(self.labels["classes"])

    def agreement(self, said: Sequence[Floats], weights: Sequence[float], priors: Floats) -> Floats:
        """Return what several models say of the texts together."""
        return agree(said, weights, priors)

    @cached_property
    def _semantics(self) -> list[Floats]:
        """Return the vectors of the texts in each space."""
        return [space.vectors(self.pool.texts) for space in self.spaces]

    def _regressions(self, cell: Splits, seed: int) -> list[Regression]:
        """Return regressions on the dimensions of LSA, and on the vectors of the backbone."""
        balance, texts = self.tuning.balance, cell.train.texts
        by_space = zip(self.spaces, self._semantics, strict=True)
        regressions = [
            Regression(
                space.vectors(texts),
                of_pool,
                lambda columns, classes: fit_nested(columns, classes, LSA_C, balance),
            )
            for space, of_pool in by_space
        ]
        labelled, of_pool = self._backbone_vectors(cell, seed)
        return [
            *regressions,
            Regression(
                labelled,
                of_pool,
                lambda columns, classes: fit_logistic(columns, classes, VECTORS_C, balance),
            ),
        ]

    def _backbone_vectors(self, cell: Splits, seed: int) -> tuple[Floats, Floats]:
        """Return the vectors of labelled and unlabelled texts by the pretrained backbone."""
        start = Start(self.model, self.source.weights)
        built, _ = build_model(self.task, start, self.labels, self.tuning, seed)
        model, pooling = cast(Classifier, self.shared.begin(self, built)), self.tuning.pooling
        batches = self._fit(cell, seed, 0.0).batches
        labelled, pool = (
            self.vectors.of(model, texts, batches, pooling) for texts in (cell.train, self.pool)
        )
        standard, mean, spread = standardise(pool)
        return (labelled - mean) / spread, standard

    def _voted_view(self, cell: Splits, folds: Folds, rate: float, seed: int) -> View:
        """Return what fine-tunings say together, each of which leaves out some of the labels."""
        labelled, opinions = cell.train, list[Floats]()
        held_out = np.zeros((len(labelled), self.num_classes))
        for voter in range(self.rules.voters):
            is_out = np.zeros(len(labelled), bool) if folds is None else folds == voter
            inside, outside = (np.flatnonzero(rows).tolist() for rows in (~is_out, is_out))
            train = replace(cell, train=labelled.subset(inside))
            of_voter = derive_seed(seed, "voter", voter)
            opinion = self._opinion(train, rate, of_voter, labelled.subset(outside))
            opinions.append(opinion[0])
            held_out[outside] = opinion[1]
        return View(average_views(opinions), None if folds is None else held_out)

    def _vote(self, train: Splits, rate: float, seed: int) -> Floats:
        """Return what fine-tunings on labelled and taught texts say together."""
        seeds = [derive_seed(seed, "student", number) for number in range(self.rules.students)]
        return average_views([self._opinion(train, rate, each)[0] for each in seeds])

    def _opinion(
        self, train: Splits, rate: float, seed: int, other: Dataset | None = None
    ) -> tuple[Floats, Floats]:
        """Return what a fine-tuning says of the texts, and of some labelled ones."""

        def opine(value: float) -> tuple[Floats, Floats]:
            _, trainer, _ = self._train(train, seed, value)
            of_pool = self._predict(trainer.best_weights, self.pool)
            if not other:
                return of_pool, of_pool[:0]
            model = self.shared.load(self, trainer.best_weights).eval()
            batches = TextBatches(self.tuning.micro_tokens, self.source.tokenizer.pad, self.runtime)
            return of_pool, self.task.outputs(model, other, batches)

        return train_stably(opine, rate, self.name)[0]

    def taught_texts(self, labelled: Dataset, shares: Floats, part: float, seed: int) -> Dataset:
        """Return labelled texts, and the surest part of the others by shares of classes."""
        rows = surest_rows(shares, part)
        taught = teach(self.pool.subset(rows), shares[rows], self.labels["classes"])
        if self.rules.perturbs:
            taught = perturb(taught, self.source.tokenizer, seed)
        return join_taught(labelled, taught, self.tuning)
