"""The arm that teaches itself: labels, and what it then says of unlabelled texts.

Models that err differently label unlabelled texts together: several fine-tunings, the frozen
backbone, and LSA. The surest part of each class is learned with the labels by fine-tunings that
start anew from the pretrained weights, and these label the texts again. One last fine-tuning learns
from all that, so the model that is kept is as small as that of a warm arm.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.arms import (
    Splits,
    TrainedModel,
    TransformerArm,
    train_stably,
)
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.model.models import Classifier
from warmstart.seeds import derive_seed
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.fitting import Start, build_model
from warmstart.tasks.frozen import FrozenVectors
from warmstart.tasks.teaching import (
    agree,
    average_views,
    certain_shares,
    class_priors,
    perturb,
    surest_rows,
    teach,
)
from warmstart.training.defaults import finetuning_epochs

Floats = NDArray[np.float64]
MOST_TEXTS = {"cuda": 8_192, "cpu": 1_024}  # that are labelled; more take longer and add little
WATCHED = 32  # labelled texts that a training is measured on which is only to vote


@dataclass(frozen=True)
class SelfTraining:
    """How a model teaches itself."""

    parts: tuple[float, ...] = (0.25, 0.5)  # of the texts that are learned, round by round
    num_voters: int = 3  # fine-tunings that label the texts together


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
        return self.rules.num_voters * sum(steps[:-1]) + steps[-1]

    @property
    def num_texts_read(self) -> int:
        """Return how many texts are read to be labelled."""
        return (self.rules.num_voters * len(self.rules.parts) + 1) * len(self.pool)

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
        views = [*self._baseline_views(labelled), self._frozen_view(labelled, seed)]
        train = labelled
        for number, part in enumerate(self.rules.parts):
            shares = agree([*views, self._vote(train, labelled, rate, seed, number)], priors)
            views, train = [], self._taught(labelled, shares, part, seed, number)
        return train

    def _baseline_views(self, labelled: Dataset) -> list[Floats]:
        """Return what baselines that are fitted on the labels say of the texts."""
        fitted = (each.fit(labelled, each.settings(1)[0]) for each in self.baselines)
        return [each.outputs(self.pool) for each in fitted]

    def _frozen_view(self, labelled: Dataset, seed: int) -> Floats:
        """Return what a regression on the vectors of the pretrained backbone says of the texts."""
        fit = self._fit(_unscored(labelled, labelled), seed, 0.0)
        start = Start(self.model, self.source.weights)
        built, _ = build_model(self.task, start, self.labels, self.tuning, seed)
        model, pooling = cast(Classifier, self.shared.begin(self, built)), self.tuning.pooling
        head = self.task.solve_head(model, fit, [pooling], self.vectors)
        return head.outputs(self.vectors.of(model, self.pool, fit.batches, pooling))

    def _vote(
        self, train: Dataset, labelled: Dataset, rate: float, seed: int, number: int
    ) -> Floats:
        """Return what several fine-tunings say of the texts together."""
        splits = _unscored(train, labelled)
        return average_views(
            [
                self._opinion(splits, rate, derive_seed(seed, "voter", number, voter))
                for voter in range(self.rules.num_voters)
            ]
        )

    def _opinion(self, splits: Splits, rate: float, seed: int) -> NDArray[Any]:
        def train(value: float) -> NDArray[Any]:
            _, trainer, _ = self._train(splits, seed, value)
            return self._predict(trainer.best_weights, self.pool)

        return train_stably(train, rate, self.name)[0]

    def _taught(
        self, labelled: Dataset, shares: Floats, part: float, seed: int, number: int
    ) -> Dataset:
        """Return labelled texts, and the surest part of the others by shares of classes.

        A labelled text is read as often as it would be read without the others.
        """
        rows = surest_rows(shares, part)
        seed = derive_seed(seed, "taught", number)
        taught = teach(self.pool.subset(rows), shares[rows], self.labels["classes"])
        usual = finetuning_epochs(len(labelled), self.tuning)
        repeats = round(usual / finetuning_epochs(len(labelled) + len(rows), self.tuning))
        certain = replace(labelled, shares=certain_shares(labelled.labels))
        parts = [*max(1, repeats) * [certain], perturb(taught, self.source.tokenizer, seed)]
        return join_datasets([_columns(part) for part in parts])


def _unscored(train: Dataset, labelled: Dataset) -> Splits:
    """Return splits for a training that is not scored: some labels show its course."""
    return Splits(train, labelled.subset(range(min(WATCHED, len(labelled)))), None, temperature=1.0)


def _columns(data: Dataset) -> Dataset:
    """Return the columns that a fine-tuning reads."""
    columns = ("texts", "labels", "shares", "targets", "ids")
    return Dataset(data.file, **{name: getattr(data, name) for name in columns})
