"""What a comparison asks of a simple model that a Transformer has to beat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.runs.folder import RunFolder


@dataclass(frozen=True)
class FittedBaseline:
    """A baseline that was fitted with one setting."""

    value: float  # the setting, or the one that was chosen inside the training labels
    outputs: Callable[[Dataset], NDArray[Any]]  # texts -> outputs like a model's
    save: Callable[[RunFolder], None]  # writes its files into a run folder
    elapsed_s: float


class Baseline(Protocol):
    """A simple model that a Transformer has to beat, as a comparison fits it."""

    name: str  # of its arm
    description: str  # for the reader of a report
    task: str  # that opens its run folder
    arm: str  # its name after --arms

    def settings(self, trials: int) -> list[float]:
        """Return the settings to try, the default first."""

    def describe_setting(self, value: float) -> str:
        """Write a setting with its name."""

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline on whole texts; their features are kept for the next setting."""

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return the seconds it takes to read texts, which is done once for all fits."""
