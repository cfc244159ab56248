"""Labelled files -> texts with class numbers, and what encoding them cut, in words.

Knows nothing about models.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.batching.encode import EncodedTexts, encode_texts, truncation_words
from warmstart.data.labelled import LabelledTexts, join_pair, read_labelled
from warmstart.data.overlap import Fingerprints, fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.settings.training import Truncate
from warmstart.tokenization.pieces import join_pieces
from warmstart.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class ClassData:
    """The texts, or pairs of texts, of one file with their class numbers."""

    file: str
    texts: tuple[str, ...]
    classes: tuple[int, ...]
    seconds: tuple[str, ...] | None = None  # the second text of each pair

    def encode(self, tokenizer: Tokenizer, max_length: int, rule: Truncate) -> EncodedTexts:
        """Return the texts as a model reads them."""
        return encode_texts(self.texts, tokenizer, max_length, rule, self.seconds)

    def readable(self, is_pieces: bool) -> list[str]:
        """Return every row as one text of whole words, pairs too."""
        first, second = self._sides(is_pieces)
        return first if second is None else list(map(join_pair, first, second))

    def seen_by(self, seen: Fingerprints, is_pieces: bool) -> NDArray[np.bool_]:
        """Say for each row whether it was seen; of a pair, one text is enough."""
        found = seen.contain(fingerprints_of(self.readable(is_pieces)))
        first, second = self._sides(is_pieces)
        if second is not None:
            for side in (first, second):
                found |= seen.contain(fingerprints_of(side))
        return found

    def _sides(self, is_pieces: bool) -> tuple[list[str], list[str] | None]:
        first, second = list(self.texts), None if self.seconds is None else list(self.seconds)
        if not is_pieces:
            return first, second
        return list(map(join_pieces, first)), second and list(map(join_pieces, second))


def read_class_file(path: str, labels: str | None, columns: Sequence[str]) -> LabelledTexts:
    """Read one labelled file."""
    return read_labelled(Path(path), columns, Path(labels) if labels else None)


def class_names(train: LabelledTexts) -> tuple[str, ...]:
    """Return the classes to tell apart, in sorted order."""
    names = tuple(sorted(set(train.labels)))
    if len(names) < 2:
        raise WarmstartError(
            f"{train.file}: all {len(train):,} texts have the label '{names[0]}'; "
            "a classifier needs two or more"
        )
    return names


def number_classes(data: LabelledTexts, names: Sequence[str]) -> ClassData:
    """Turn labels into class numbers; a label that training does not have is refused."""
    numbers = {name: number for number, name in enumerate(names)}
    for label, line in zip(data.labels, data.lines, strict=True):
        if label not in numbers:
            raise WarmstartError(
                f"{data.file} line {line}: the label '{label}' is not in the training data, "
                f"which has {', '.join(names)}"
            )
    classes = tuple(numbers[label] for label in data.labels)
    return ClassData(data.file, data.texts, classes, data.seconds)


def check_same_form(first: LabelledTexts, *others: LabelledTexts) -> None:
    """Refuse files of which some hold pairs and some single texts."""
    for other in others:
        if (other.seconds is None) != (first.seconds is None):
            pairs, single = (first, other) if first.seconds is not None else (other, first)
            raise WarmstartError(
                f"{pairs.file} holds pairs (text, text2) but {single.file} single texts; "
                "all files need the same form"
            )


def count_classes(data: ClassData, names: Sequence[str]) -> dict[str, int]:
    """Return how many texts each class has."""
    counts = Counter(data.classes)
    return {name: counts[number] for number, name in enumerate(names)}


def describe_encoding(file: str, encoded: EncodedTexts, max_length: int, rule: Truncate) -> str:
    """Say what was cut and what was not known, in one sentence."""
    num_cut, num_texts = encoded.num_truncated, len(encoded.ids)
    is_pair = encoded.starts is not None
    sentence = truncation_words(num_cut, num_texts, file, max_length, rule, is_pair)
    if encoded.unknown_share > 0.001:
        sentence += f"; {encoded.unknown_share:.1%} of its tokens are unknown"
    return sentence


def as_the_tokenizer_reads(
    data: LabelledTexts, tokenizer: Tokenizer, is_pieces: bool
) -> LabelledTexts:
    """Join pieces for a tokenizer that splits text; refuse whole text for one that cannot."""
    if tokenizer.kind == "pieces" and not is_pieces:
        raise WarmstartError(
            f"{data.file}: this tokenizer is a vocabulary of pieces, which cannot split text; "
            "add --pieces if the text is split already"
        )
    if is_pieces and tokenizer.kind != "pieces":
        seconds = None if data.seconds is None else tuple(map(join_pieces, data.seconds))
        return replace(data, texts=tuple(map(join_pieces, data.texts)), seconds=seconds)
    return data
