"""Encode texts and text pairs with special tokens, truncated to the model's maximum length."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.shared import Truncate
from warmstart.tokenization.tokenizer import Tokenizer

REMAINDER: dict[Truncate, str] = {"head": "beginning", "tail": "end", "middle": "beginning and end"}


def truncate(ids: Sequence[int], limit: int, rule: Truncate) -> list[int]:
    """Keep the beginning (`head`), the end (`tail`), or both with the `middle` cut out."""
    if len(ids) <= limit:
        return list(ids)
    front = {"head": limit, "tail": 0, "middle": (limit + 1) // 2}[rule]
    return [*ids[:front], *ids[len(ids) - (limit - front) :]]


def truncate_pair(
    first: Sequence[int], second: Sequence[int], limit: int, rule: Truncate
) -> tuple[list[int], list[int]]:
    """Truncate the longer text to the length of the other, then both equally, until they fit."""
    half = limit // 2
    longest_second = max(half, limit - len(first))
    longest_first = max(limit - half, limit - len(second))
    return truncate(first, longest_first, rule), truncate(second, longest_second, rule)


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids of texts, each between its first and last special token."""

    ids: list[list[int]]
    starts: list[int] | None  # where the second text of each pair begins; None: single texts
    is_truncated: list[bool]  # of each text
    num_tokens: int  # before truncation
    num_unknown: int  # of these tokens

    @property
    def num_truncated(self) -> int:
        return sum(self.is_truncated)

    @property
    def unknown_share(self) -> float:
        return self.num_unknown / max(1, self.num_tokens)


def encode_texts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    rule: Truncate,
    seconds: Sequence[str] | None = None,
) -> EncodedTexts:
    """Encode texts, or pairs with their second texts, to at most `max_length` tokens."""
    start, eos, unk = tokenizer.start, tokenizer.eos, tokenizer.unk
    encoded, starts = tokenizer.encode(texts), None
    if seconds is None:
        ids = [[*start, *truncate(text, max_length - 2, rule), eos] for text in encoded]
        sizes = [len(start) + len(text) + 1 for text in encoded]
    else:
        if max_length < 5:
            raise WarmstartError(f"--max-length {max_length} is too short for pairs: 5 or more")
        pairs = list(zip(encoded, tokenizer.encode(seconds), strict=True))
        shortened = [truncate_pair(a, b, max_length - 3, rule) for a, b in pairs]
        ids = [[*start, *a, eos, *b, eos] for a, b in shortened]
        starts = [len(start) + len(a) + 1 for a, _ in shortened]
        sizes = [len(start) + len(a) + len(b) + 2 for a, b in pairs]
        encoded = [text for pair in pairs for text in pair]
    return EncodedTexts(
        ids,
        starts,
        is_truncated=[size > max_length for size in sizes],
        num_tokens=sum(map(len, encoded)),
        num_unknown=0 if unk is None else sum(text.count(unk) for text in encoded),
    )


@dataclass(frozen=True)
class Truncation:
    """How many texts of a file were truncated, and how."""

    file: str
    num_texts: int
    num_truncated: int
    max_length: int
    rule: Truncate
    is_pair: bool = False

    def describe(self) -> str:
        noun = "pair" if self.is_pair else "text"
        texts, limit = f"{quantity(self.num_texts, noun)} in {self.file}", f"{self.max_length:,}"
        if not self.num_truncated:
            return f"all {texts} {'fits' if self.num_texts == 1 else 'fit'} into {limit} tokens"
        order = ", the longer text truncated first" if self.is_pair else ""
        return (
            f"{self.num_truncated:,} of {texts} are longer than {limit} tokens and keep only "
            f"their {REMAINDER[self.rule]}{order}"
        )
