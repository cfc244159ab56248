"""One training on labelled texts: what it learns from, and with which settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warmstart.batching.padding import LabelledStream
from warmstart.inference.vectors import TextBatches
from warmstart.runtime import Runtime
from warmstart.settings.finetuning import Tuning
from warmstart.tasks.labelled_data import Examples
from warmstart.training.defaults import finetuning_epochs

RECORDED_LENGTHS = 64  # recorded batches are padded to a multiple of this
Labels = Mapping[str, Any]  # what config.json records of the labels: {"classes": [...]}


@dataclass(frozen=True)
class Fit:
    """One training on labelled texts."""

    train: Examples
    valid: Examples
    labels: Labels
    tuning: Tuning
    learning_rate: float
    layer_decay: float
    seed: int
    pad: int
    runtime: Runtime
    title: str = "training"

    @property
    def batches(self) -> TextBatches:
        """Return how texts are grouped when nothing is learned from them."""
        return TextBatches(self.tuning.micro_tokens, self.pad, self.runtime)

    @property
    def num_epochs(self) -> int:
        """Return the number of passes over the training texts."""
        return finetuning_epochs(len(self.train.ids), self.tuning)

    @property
    def is_recorded(self) -> bool:
        """Tell whether steps are recorded and replayed."""
        is_cuda = self.runtime.device.type == "cuda"
        return is_cuda if self.tuning.compile is None else self.tuning.compile and is_cuda

    def epoch_of(self, step: int) -> int:
        """Return the epoch that a step belongs to, from 1."""
        return -(-step // self.stream().steps_per_epoch)

    def stream(self) -> LabelledStream:
        """Return the training texts in batches."""
        return LabelledStream(
            self.train.ids,
            self.train.targets,
            self.tuning.batch_size,
            self.tuning.micro_tokens,
            self.pad,
            self.seed,
            self.train.starts,
            RECORDED_LENGTHS if self.is_recorded else 1,
        )
