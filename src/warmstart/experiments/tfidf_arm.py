"""The baseline of a comparison: TF-IDF and logistic regression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from warmstart.experiments.arms import ArmSplit, Floats, Saving, Splits, TrainedModel
from warmstart.results.comparison import Arm
from warmstart.settings.finetuning import Balance
from warmstart.tasks import tfidf


@dataclass(frozen=True)
class TfidfArm:
    """TF-IDF and logistic regression."""

    name: str
    num_classes: int
    balance: Balance
    counted: tfidf.CountedTexts = field(default_factory=tfidf.CountedTexts)
    uses_device: ClassVar[bool] = False
    latest: dict[tuple[tuple[str, int], ...], tfidf.BaselineTexts] = field(default_factory=dict)

    def describe(self) -> Arm:
        """Describe the arm; its number of parameters depends on the texts."""
        return Arm(name=self.name, kind="baseline")

    def settings(self, trials: int) -> list[float]:
        """Return values of C, the inverse of regularisation."""
        return tfidf.settings(trials)

    def describe_setting(self, value: float) -> str:
        return f"C {value:g}"

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Fit one baseline with each value of C; no seed is used."""
        texts = self._read(splits.train)
        for value in values:
            model, elapsed_s = texts.fit(value)
            predict = partial(self._predict, model, texts)
            outputs = [predict(splits.valid)]
            saving = Saving(tfidf.TfidfTask.name, None, None, partial(tfidf.save_baseline, model))
            yield TrainedModel(value, outputs, (), elapsed_s, predict, lambda: None, saving)

    def _read(self, train: ArmSplit) -> tfidf.BaselineTexts:
        """Return the training texts; those of the latest cell, where these are the same."""
        key = tuple(sorted(zip(train.texts, train.classes, strict=True)))
        if key not in self.latest:
            self.latest.clear()
            self.latest[key] = tfidf.BaselineTexts(
                train.texts, train.classes, self.balance, self.counted
            )
        return self.latest[key]

    def _predict(
        self, model: tfidf.Baseline, texts: tfidf.BaselineTexts, split: ArmSplit
    ) -> Floats:
        return model.column_probabilities(texts.columns_of(split.texts), self.num_classes)
