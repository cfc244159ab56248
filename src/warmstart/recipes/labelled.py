"""Labelled files -> token ids and class numbers, with what was cut counted.

Knows nothing about models.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.batches.truncate import truncate
from warmstart.config.jobs import Truncate
from warmstart.errors import WarmstartError
from warmstart.report.formats import counted
from warmstart.text.labelled import LabelledTexts, read_labelled
from warmstart.text.pieces import join_pieces
from warmstart.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ClassData:
    """The texts of one file with their class numbers."""

    file: str
    texts: tuple[str, ...]
    classes: tuple[int, ...]

    def subset(self, rows: Sequence[int]) -> "ClassData":
        """Return these rows, in this order."""
        return ClassData(
            self.file, tuple(self.texts[r] for r in rows), tuple(self.classes[r] for r in rows)
        )


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
    return ClassData(data.file, data.texts, tuple(numbers[label] for label in data.labels))


def count_classes(data: ClassData, names: Sequence[str]) -> dict[str, int]:
    """Return how many texts each class has."""
    counts = Counter(data.classes)
    return {name: counts[number] for number, name in enumerate(names)}


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids of texts, each between its first and last special token."""

    ids: list[list[int]]
    num_truncated: int
    unknown_share: float  # of all tokens


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int, rule: Truncate
) -> EncodedTexts:
    """Encode texts for a model that reads `max_length` tokens."""
    room = max_length - 2
    encoded = tokenizer.encode(list(texts))
    ids = [[tokenizer.bos, *truncate(text, room, rule), tokenizer.eos] for text in encoded]
    num_tokens = sum(len(text) for text in encoded)
    unknown = sum(text.count(tokenizer.unk) for text in encoded) if tokenizer.unk is not None else 0
    num_truncated = sum(len(text) > room for text in encoded)
    return EncodedTexts(ids, num_truncated, unknown / max(1, num_tokens))


def describe_encoding(file: str, encoded: EncodedTexts, max_length: int, rule: Truncate) -> str:
    """Say what was cut and what was not known, in one sentence."""
    num_cut, num_texts = encoded.num_truncated, len(encoded.ids)
    kept = {"head": "beginning", "tail": "end", "middle": "beginning and end"}[rule]
    sentence = f"all {counted(num_texts, 'text')} in {file} fit into {max_length:,} tokens"
    if num_cut:
        sentence = (
            f"{num_cut:,} of {counted(num_texts, 'text')} in {file} are longer than "
            f"{max_length:,} tokens and keep only their {kept}"
        )
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
        return replace(data, texts=tuple(join_pieces(text) for text in data.texts))
    return data
