"""Set labelled texts aside to validate on, and look at the labels of both parts.

The choice depends on the texts alone, not on their order or a seed. Copies of a text stay together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from warmstart.data.fingerprints import fingerprint
from warmstart.data.labelled import LabelledTexts, join_pair
from warmstart.data.shingles import CODE_BITS
from warmstart.errors import WarmstartError
from warmstart.seeds import derive_seed

SHARE = 0.2  # of each class,
_MOST = 2_000  # texts in all: more would hardly choose better, and are missed in training
_LEAST = 5  # texts of a class, unless that is more than half of them
_MOST_NAMED = 5  # classes in one sentence


def set_aside(data: LabelledTexts) -> tuple[LabelledTexts, LabelledTexts]:
    """Return the texts to train on, and a share of every class to validate on."""
    train, valid = split_rows(data)
    return data.subset(train), data.subset(valid)


def split_rows(data: LabelledTexts, order: int = 0) -> tuple[list[int], list[int]]:
    """Return the rows to train on and those to validate on; another order chooses other texts."""
    by_class: dict[str, list[list[int]]] = defaultdict(list)
    for rows in _copies(data, order):
        if len({data.labels[row] for row in rows}) == 1:  # a text with two labels stays in training
            by_class[data.labels[rows[0]]].append(rows)
    share = min(SHARE, _MOST / len(data)) if len(data) else SHARE
    valid = {row for groups in by_class.values() for rows in _share(groups, share) for row in rows}
    if not valid:
        raise WarmstartError(
            f"{data.file} has too few texts ({len(data):,}) to set some aside for validation; "
            "label more, or give others with --valid"
        )
    return [row for row in range(len(data)) if row not in valid], sorted(valid)


def _copies(data: LabelledTexts, order: int) -> Iterable[list[int]]:
    """Return the rows of every different text, in one of the orders that only texts decide."""
    seconds = data.seconds or [None] * len(data)
    rows: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(map(join_pair, data.texts, seconds)):
        rows[fingerprint(text)].append(row)
    mask = derive_seed("set aside", order) >> (63 - CODE_BITS) if order else 0
    return (rows[code] for code in sorted(rows, key=lambda code: code ^ mask))


def _share(groups: Sequence[list[int]], share: float) -> Iterable[list[int]]:
    """Yield different texts of a class until there are enough; the last one is left."""
    num_texts = sum(map(len, groups))
    num_wanted = max(ceil(share * num_texts), min(_LEAST, num_texts // 2))
    num_taken = 0
    for rows in groups[:-1]:
        if num_taken >= num_wanted:
            return
        num_taken += len(rows)
        yield rows


def describe_labels(train: LabelledTexts, valid: LabelledTexts) -> list[str]:
    """Say which classes can hardly be learned or validated, and which labels look like one."""
    counts = Counter(train.labels)
    single = [label for label, count in counts.items() if count == 1]
    missing = sorted(counts.keys() - set(valid.labels))
    notes = []
    if single:
        notes.append(f"{train.file}: only one text with the label {_listed(single)}")
    if missing:
        notes.append(f"{valid.file}: no text with the label {_listed(missing)} to validate on")
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


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(f"'{label}'" for label in labels[:_MOST_NAMED])
    more = len(labels) - _MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
