"""Which texts a cell trains on, and which validation texts select its setting and epoch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.seeds import shuffled
from warmstart.settings.finetuning import CompareConfig

Rows = NDArray[np.int64]
HALVING_SEED = 0


def subset_sizes(config: CompareConfig, num_texts: int, num_classes: int) -> tuple[int, ...]:
    """Return the sizes of the label subsets, rising."""
    sizes = {num_texts if size == "all" else int(size) for size in config.labels}
    for size in sizes:
        if not num_classes <= size <= num_texts:
            raise WarmstartError(
                f"--labels {size} is not possible: {', '.join(config.train)} has {num_texts:,} "
                f"texts in {num_classes} classes"
            )
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
class Fold:
    """Validation texts that select a setting and an epoch, and those that are then predicted."""

    selecting: Rows
    predicted: Rows


def validation_folds(classes: Sequence[int], has_test: bool) -> tuple[Fold, ...]:
    """Return one fold of all texts when a test set is scored, else each half against the other.

    Without a test set the validation texts are scored, so no text may help to select the model that
    predicts it. Halves are stratified.
    """
    if has_test:
        rows = np.arange(len(classes))
        return (Fold(rows, rows),)
    if len(classes) < 2:
        raise WarmstartError(
            "--valid has only 1 text; without --test at least 2 are needed, one for each half"
        )
    order = np.array(nested_rows(classes, HALVING_SEED))
    first, second = np.sort(order[::2]), np.sort(order[1::2])
    return Fold(first, second), Fold(second, first)
