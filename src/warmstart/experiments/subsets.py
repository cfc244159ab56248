"""Which texts a cell trains on, and which validation texts select its setting and epoch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.data.splits import SHARE
from warmstart.errors import WarmstartError
from warmstart.seeds import shuffled
from warmstart.settings.finetuning import CompareConfig

Rows = NDArray[np.int64]
HALVING_SEED = 0


@dataclass(frozen=True)
class LabelPool:
    """The labelled texts that subsets are drawn from.

    Labels are counted as their user pays for them. Validation texts that were set aside are part of
    the labels, so a subset has its own share of them; a file given with `--valid` comes on top.
    """

    num_train: int
    num_set_aside: int | None  # None: `--valid` was given

    def __len__(self) -> int:
        return self.num_train + (self.num_set_aside or 0)

    def divide(self, labels: int) -> tuple[int, int | None]:
        """Return how many of the labels train, and how many select."""
        if self.num_set_aside is None:
            return labels, None
        num_selecting = min(max(2, round(SHARE * labels)), self.num_set_aside)
        num_train = min(labels - num_selecting, self.num_train)
        return num_train, labels - num_train

    def check(self, labels: int, num_classes: int, files: str) -> None:
        """Refuse a number of labels above that of the texts, or without a text of every class."""
        if labels > len(self):
            problem = f"there are {len(self):,} texts in {files}"
        elif (divided := self.divide(labels))[0] < num_classes:
            aside = f" besides {divided[1]} set aside to validate on" if divided[1] else ""
            problem = f"{files} has {num_classes} classes, and each needs a text to train on{aside}"
        else:
            return
        raise WarmstartError(f"--labels {labels} is not possible: {problem}")


def subset_sizes(config: CompareConfig, pool: LabelPool, num_classes: int) -> tuple[int, ...]:
    """Return the sizes of the label subsets, rising."""
    sizes = {len(pool) if size == "all" else int(size) for size in config.labels}
    files = ", ".join(config.train) + (" in each fold" if config.folds else "")
    for size in sizes:
        pool.check(size, num_classes, files)
    return tuple(sorted(sizes))


def nested_rows(classes: Sequence[int], seed: int) -> list[int]:
    """Order rows so that every prefix has the classes in proportion, each at least once."""
    ranks: dict[int, float] = {}
    for number in sorted(set(classes)):
        rows = [row for row, row_class in enumerate(classes) if row_class == number]
        for rank, member in enumerate(shuffled(len(rows), seed, "subset", number)):
            ranks[rows[member]] = (rank + 0.5) / len(rows) if rank else number - len(classes)
    return sorted(ranks, key=lambda row: (ranks[row], row))


@dataclass(frozen=True)
class Selection:
    """Validation texts that select a setting and an epoch, and those that are then predicted."""

    selecting: Rows
    predicted: Rows


def selections(
    classes: Sequence[int], has_test: bool, num_selecting: int | None = None
) -> tuple[Selection, ...]:
    """Return one selection by all texts if a test set is scored, else each half for the other.

    Without a test set the validation texts are scored, so no text may help to select the model that
    predicts it. Halves are stratified. The texts that select may be limited to a number.
    """
    if has_test:
        rows = np.arange(len(classes))
        selecting = np.sort(nested_rows(classes, HALVING_SEED)[:num_selecting])
        return (Selection(selecting, rows),)
    if len(classes) < 2:
        raise WarmstartError(
            "--valid has only 1 text; without --test at least 2 are needed, one for each half"
        )
    order = np.array(nested_rows(classes, HALVING_SEED))
    first, second = np.sort(order[::2]), np.sort(order[1::2])
    selecting = order[:num_selecting]
    return (
        Selection(np.intersect1d(first, selecting), second),
        Selection(np.intersect1d(second, selecting), first),
    )
