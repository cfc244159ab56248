"""The arm that teaches itself: labels, and what it then says of unlabelled texts.

Models that err differently label unlabelled texts together: several fine-tunings, the frozen
backbone, and LSA. The surest part of each class is learned with the labels by fine-tunings that
start anew from the pretrained weights, and these label the texts again. One last fine-tuning learns
from all that, so the model that is kept is as small as that of a warm arm.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

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
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.fitting import Start, build_model
from warmstart.tasks.frozen import FrozenVectors
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
Folds = NDArray[np.int64] | None  # the fold of each label; None: too few labels
Predict = Callable[[Dataset, Dataset], Floats]  # texts to fit, others -> what is said of those
MOST_TEXTS = {"cuda": 8_192, "cpu": 1_024}  # that are labelled; more take longer and add little
WATCHED = 32  # labelled texts that a training is measured on which is only to vote


@dataclass(frozen=True)
class SelfTraining:
    """How a model teaches itself."""

    parts: tuple[float, ...] = (0.25, 0.5)  # of the texts that are learned, round by round
    voters: int = 5  # fine-tunings that label the texts first, each without a part of the labels
    students: int = 3  # fine-tunings that label them again, in the rounds between
    perturbs: bool = True  # whether texts are learned cropped and masked


@dataclass(frozen=True)
class SelfArm(TransformerArm):
    """A Transformer that learns the labels, and those that it and others give to more texts."""

    pool: Dataset = field(default_factory=Dataset)  # unlabelled texts as the model reads them
    baselines: tuple[Baseline, ...] = ()  # that label them, too, in the first round
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
            train = self.self_labelled(splits.train, value, seed)
            for model in super().fit(replace(splits, train=train), [value], seed):
                yield replace(model, elapsed_s=time.monotonic() - started)

    def self_labelled(self, labelled: Dataset, rate: float, seed: int) -> Dataset:
        """Return labelled texts with the texts that the last model learns besides them."""
        priors = class_priors(labelled.targets, len(self.labels["classes"]))
        watched = labelled.subset(range(min(WATCHED, len(labelled))))
        cell = train = Splits(labelled, watched, None, temperature=1.0)
        views = [view.calibrate(labelled.targets) for view in self.views(cell, rate, seed)]
        for number, part in enumerate(self.rules.parts):
            if number:
                voters = (
                    derive_seed(seed, "student", number, n) for n in range(self.rules.students)
                )
                views = [average_views([self._opinion(train, rate, each)[0] for each in voters])]
            taught = self.taught(labelled, agree(views, priors), part, derive_seed(seed, number))
            train = replace(cell, train=taught)
        return train.train

    def views(self, cell: Splits, rate: float, seed: int) -> Iterator[View]:
        """Yield what models of different kinds that know the labels say of the texts."""
        folds = label_folds(cell.train.targets, self.rules.voters)
        yield from (self._baseline_view(each, cell.train, folds) for each in self.baselines)
        yield self._frozen_view(cell, folds, seed)
        yield self._voted_view(cell, folds, rate, seed)

    def _baseline_view(self, baseline: Baseline, labelled: Dataset, folds: Folds) -> View:
        fitted = baseline.fit(labelled, baseline.settings(1)[0])

        def outside(inside: Dataset, other: Dataset) -> Floats:
            return baseline.fit(inside, fitted.value).outputs(other)

        return View(fitted.outputs(self.pool), self._held_out(labelled, folds, outside))

    def _frozen_view(self, cell: Splits, folds: Folds, seed: int) -> View:
        """Return what a regression on the vectors of the pretrained backbone says."""
        built, _ = build_model(
            self.task, Start(self.model, self.source.weights), self.labels, self.tuning, seed
        )
        model, pooling = cast(Classifier, self.shared.begin(self, built)), self.tuning.pooling

        def outside(inside: Dataset, other: Dataset) -> Floats:
            fit = self._fit(replace(cell, train=inside), seed, 0.0)
            head = self.task.solve_head(model, fit, [pooling], self.vectors)
            return head.outputs(self.vectors.of(model, other, fit.batches, pooling))

        return View(outside(cell.train, self.pool), self._held_out(cell.train, folds, outside))

    def _voted_view(self, cell: Splits, folds: Folds, rate: float, seed: int) -> View:
        """Return what fine-tunings say together, each of which leaves out some of the labels."""
        labelled, opinions = cell.train, list[Floats]()
        held_out = np.zeros((len(labelled), len(self.labels["classes"])))
        for voter in range(self.rules.voters):
            of_voter = derive_seed(seed, "voter", voter)
            is_out = np.zeros(len(labelled), bool) if folds is None else folds == voter
            inside, outside = (np.flatnonzero(rows).tolist() for rows in (~is_out, is_out))
            train = replace(cell, train=labelled.subset(inside))
            opinion = self._opinion(train, rate, of_voter, labelled.subset(outside))
            opinions.append(opinion[0])
            held_out[outside] = opinion[1]
        return View(average_views(opinions), None if folds is None else held_out)

    def _held_out(self, labelled: Dataset, folds: Folds, outside: Predict) -> Floats | None:
        """Return what is said of each label by a model that was fitted without its fold."""
        if folds is None:
            return None
        held_out = np.zeros((len(labelled), len(self.labels["classes"])))
        for fold in np.unique(folds):
            inside, other = (
                np.flatnonzero(rows).tolist() for rows in (folds != fold, folds == fold)
            )
            held_out[other] = outside(labelled.subset(inside), labelled.subset(other))
        return held_out

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

    def taught(self, labelled: Dataset, shares: Floats, part: float, seed: int) -> Dataset:
        """Return labelled texts, and the surest part of the others by shares of classes."""
        rows = surest_rows(shares, part)
        taught = teach(self.pool.subset(rows), shares[rows], self.labels["classes"])
        if self.rules.perturbs:
            taught = perturb(taught, self.source.tokenizer, seed)
        return join_taught(labelled, taught, self.tuning)
