"""Split labelled texts into the folds of a cross-validation.

The folds depend on the texts and the seed, not on the order of the rows. Copies and near-copies of
a text are in one fold, so that no model is tested on a text that it was trained on.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.data.copies import group_copies
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import LabelledTexts
from warmstart.data.validation_split import split_rows
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.seeds import derive_seed


@dataclass(frozen=True)
class Fold:
    """The rows that the models of one fold are trained on, chosen by and tested on."""

    train: list[int]
    valid: list[int]
    test: list[int]


@dataclass(frozen=True)
class Folds:
    """Every row is tested in one fold."""

    folds: tuple[Fold, ...]
    num_copies: int  # rows that are in the fold of a copy or near-copy of theirs


def split_folds(data: LabelledTexts, texts: Sequence[str], num_folds: int, seed: int) -> Folds:
    """Split the rows, of which `texts` are the texts, into stratified folds."""
    fingerprints = fingerprints_of(texts)
    groups = group_copies(fingerprints)

    def order(rows: list[int]) -> tuple[int, list[str], int]:
        """Place the largest groups first, then class by class, by chance."""
        code = min(int(fingerprints.texts[row]) for row in rows)
        labels = sorted(data.labels[row] for row in rows)
        return -len(rows), labels, derive_seed("folds", seed, code)

    tested = _deal(sorted(groups, key=order), data.labels, num_folds)
    _check(data, tested)
    folds = tuple(_fold(data, sorted(rows), number) for number, rows in enumerate(tested, 1))
    return Folds(folds, sum(len(rows) for rows in groups if len(rows) > 1))


def _deal(groups: Sequence[list[int]], labels: Sequence[str], num_folds: int) -> list[list[int]]:
    """Give each group to the fold that has fewest texts of its classes, then fewest texts."""
    folds: list[list[int]] = [[] for _ in range(num_folds)]
    counts = [Counter[str]() for _ in folds]
    for rows in groups:
        own = [labels[row] for row in rows]
        sizes = [(sum(c[label] for label in own), c.total()) for c in counts]
        number = sizes.index(min(sizes))
        folds[number] += rows
        counts[number].update(own)
    return folds


def _check(data: LabelledTexts, folds: Sequence[list[int]]) -> None:
    """Refuse folds without a text, and classes that a fold would have to itself."""
    if not all(folds):
        num_filled = sum(map(bool, folds))
        raise WarmstartError(
            f"--folds {len(folds)} is too many: {data.file} has only "
            f"{counted(num_filled, 'text')} that are no copies of others"
        )
    occurs = Counter(label for rows in folds for label in {data.labels[row] for row in rows})
    for label, num_folds in sorted(occurs.items()):
        if num_folds == 1:
            num_texts = data.labels.count(label)
            raise WarmstartError(
                f"--folds needs at least 2 different texts of every class, but {data.file} has "
                f"{counted(num_texts, 'text')} with the label '{label}', all in one fold: "
                "label more of them, or leave the class out"
            )


def _fold(data: LabelledTexts, test: list[int], number: int) -> Fold:
    """Set a share of the other texts aside to validate on: other ones in each fold."""
    tested = set(test)
    rest = [row for row in range(len(data)) if row not in tested]
    train, valid = split_rows(data.subset(rest), order=number)
    return Fold([rest[row] for row in train], [rest[row] for row in valid], test)
