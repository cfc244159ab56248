"""Splits of labelled texts: sets put aside, folds, nested label subsets, halves of validation."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.copies import group_copies
from warmstart.data.fingerprints import CODE_BITS, fingerprint, fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.seeds import derive_seed, permutation

SHARE = 0.2  # of each class,
_MOST = 2_000  # texts in all: more would hardly choose better, and are missed in training
_LEAST = 5  # texts of a class, unless that is more than half of them
_MOST_NAMED = 5  # classes in one sentence
Rows = NDArray[np.int64]
HALVING_SEED = 0


def set_aside(data: Dataset, classes: Sequence[Any] | None = None) -> tuple[Dataset, Dataset]:
    """Return the texts to train on, and a share of every class to validate on.

    The classes are those of the rows; None: their labels.
    """
    train, valid = split_rows(data, data.labels if classes is None else classes)
    return data.subset(train), data.subset(valid)


def split_rows(
    data: Dataset, classes: Sequence[Any], order: int = 0
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and those to validate on; another order chooses other texts."""
    by_class: dict[Any, list[list[int]]] = defaultdict(list)
    for rows in _copies(data, order):
        if len({classes[row] for row in rows}) == 1:  # else the text stays in training
            by_class[classes[rows[0]]].append(rows)
    share = min(SHARE, _MOST / len(data)) if len(data) else SHARE
    valid = {row for groups in by_class.values() for rows in _share(groups, share) for row in rows}
    if not valid:
        raise WarmstartError(
            f"{data.file} has too few texts ({len(data):,}) to set some aside for validation; "
            "label more, or give others with --valid"
        )
    return [row for row in range(len(data)) if row not in valid], sorted(valid)


def _copies(data: Dataset, order: int) -> Iterable[list[int]]:
    """Return the rows of each group, or different text, in an order they and `order` determine."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(data.groups or data.whole_texts()):
        rows[fingerprint(text)].append(row)
    mask = derive_seed("set aside", order) >> (63 - CODE_BITS) if order else 0
    return (rows[code] for code in sorted(rows, key=lambda code: code ^ mask))


def _share(groups: Sequence[list[int]], share: float) -> Iterable[list[int]]:
    """Yield the rows of texts of a class until there are enough; the last text is never taken."""
    num_texts = sum(map(len, groups))
    num_wanted = max(ceil(share * num_texts), min(_LEAST, num_texts // 2))
    num_taken = 0
    for rows in groups[:-1]:
        if num_taken >= num_wanted:
            return
        num_taken += len(rows)
        yield rows


def describe_labels(train: Dataset, valid: Dataset) -> list[str]:
    """Say which classes can hardly be learned or validated, and which labels look like one."""
    counts = Counter(train.labels)
    single = [label for label, count in counts.items() if count == 1]
    missing = sorted(counts.keys() - set(valid.labels))
    notes = []
    if single:
        notes.append(f"{train.file}: only one text with the label {list_labels(single)}")
    if missing:
        notes.append(f"{valid.file}: no text with the label {list_labels(missing)} to validate on")
    return notes + describe_similar(counts)


def describe_similar(counts: Mapping[str, int]) -> list[str]:
    """Say which labels differ only in case or spaces, with the number of their texts."""
    similar: dict[str, list[str]] = defaultdict(list)
    for label in sorted(counts):
        similar["".join(label.casefold().split())].append(f"'{label}' ({counts[label]:,})")
    return [
        f"the labels {' and '.join(labels)} differ only in case or spaces, but are two classes"
        for labels in similar.values()
        if len(labels) > 1
    ]


def _hint(labels: Sequence[str]) -> str:
    return "".join(f"; {note}" for note in describe_similar(Counter(labels)))


def list_labels(labels: Sequence[str]) -> str:
    """Write the first labels, and how many more there are."""
    shown = ", ".join(f"'{label}'" for label in labels[:_MOST_NAMED])
    more = len(labels) - _MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown


@dataclass(frozen=True)
class Fold:
    """The rows that the models of one fold are trained on, chosen by and tested on."""

    train: list[int]
    valid: list[int]
    test: list[int]


def split_folds(
    data: Dataset, texts: Sequence[str], num_folds: int, seed: int
) -> tuple[tuple[Fold, ...], int]:
    """Split the rows, of which `texts` are the texts, into stratified folds.

    Every row is tested in one fold, with its copies and near-copies; also return how many have any.
    """
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
    return folds, sum(len(rows) for rows in groups if len(rows) > 1)


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


def _check(data: Dataset, folds: Sequence[list[int]]) -> None:
    """Refuse folds without a text, and classes that a fold would have to itself."""
    if not all(folds):
        num_filled = sum(map(bool, folds))
        raise WarmstartError(
            f"--folds {len(folds)} is too many: {data.file} has only "
            f"{quantity(num_filled, 'text')} that are no copies of others"
        )
    occurs = Counter(label for rows in folds for label in {data.labels[row] for row in rows})
    for label, num_folds in sorted(occurs.items()):
        if num_folds == 1:
            num_texts = data.labels.count(label)
            raise WarmstartError(
                f"--folds needs at least 2 different texts of every class, but {data.file} has "
                f"{quantity(num_texts, 'text')} with the label '{label}', all in one fold: "
                f"label more of them, or leave the class out{_hint(data.labels)}"
            )


def _fold(data: Dataset, test: list[int], number: int) -> Fold:
    """Set a share of the other texts aside to validate on: other ones in each fold."""
    tested = set(test)
    rest = [row for row in range(len(data)) if row not in tested]
    part = data.subset(rest)
    train, valid = split_rows(part, part.labels, order=number)
    return Fold([rest[row] for row in train], [rest[row] for row in valid], test)


@dataclass(frozen=True)
class LabelPool:
    """The labelled texts that subsets are drawn from.

    All labels that the user paid for are counted. Validation texts that were set aside are part of
    the labels, so a subset has its own share of them; a file given with `--valid` comes on top.
    """

    num_train: int
    num_set_aside: int | None  # None: `--valid` was given

    def __len__(self) -> int:
        return self.num_train + (self.num_set_aside or 0)

    def divide(self, labels: int) -> tuple[int, int | None]:
        """Return how many of the labels to train on, and how many to select by."""
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


def nested_rows(classes: Sequence[int], seed: int) -> list[int]:
    """Order rows so that every prefix has the classes in proportion, each at least once."""
    rows = proportional_rows(classes, seed)
    firsts: dict[int, int] = {}
    for row in rows:
        firsts.setdefault(classes[row], row)
    begin = [row for _, row in sorted(firsts.items())]
    return begin + [row for row in rows if firsts[classes[row]] != row]


def proportional_rows(classes: Sequence[int], seed: int) -> list[int]:
    """Order rows so that every prefix has the classes in proportion; rare ones come late."""
    ranks: dict[int, float] = {}
    for number in sorted(set(classes)):
        rows = [row for row, row_class in enumerate(classes) if row_class == number]
        for rank, member in enumerate(permutation(len(rows), seed, "subset", number)):
            ranks[rows[member]] = (rank + 0.5) / len(rows)
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
        selecting = np.sort(proportional_rows(classes, HALVING_SEED)[:num_selecting])
        return (Selection(selecting, rows),)
    if len(classes) < 2:
        raise WarmstartError(
            "--valid has only 1 text; without --test at least 2 are needed, one for each half"
        )
    order = np.array(proportional_rows(classes, HALVING_SEED))
    first, second = np.sort(order[::2]), np.sort(order[1::2])
    selecting = order[:num_selecting]
    return (
        Selection(np.intersect1d(first, selecting), second),
        Selection(np.intersect1d(second, selecting), first),
    )
