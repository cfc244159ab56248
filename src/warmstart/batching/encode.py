"""Encode texts and text pairs with special tokens, truncated to the model's maximum length."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.batching.truncate import REMAINDER, truncate, truncate_pair
from warmstart.errors import WarmstartError
from warmstart.settings.choices import Truncate
from warmstart.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids of texts, each between its first and last special token."""

    ids: list[list[int]]
    starts: list[int] | None  # where the second text of each pair begins; None: single texts
    num_truncated: int
    num_tokens: int  # before truncation
    num_unknown: int  # of these

    @property
    def unknown_share(self) -> float:
        """Return the share of unknown tokens."""
        return self.num_unknown / max(1, self.num_tokens)


def encode_texts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    rule: Truncate,
    seconds: Sequence[str] | None = None,
) -> EncodedTexts:
    """Encode texts, or pairs with their second texts, to at most `max_length` tokens."""
    first = tokenizer.encode(list(texts))
    second = None if seconds is None else tokenizer.encode(list(seconds))
    ids, starts, sizes = [], [], []
    bos, eos = tokenizer.bos, tokenizer.eos
    if second is None:
        ids = [[bos, *truncate(text, max_length - 2, rule), eos] for text in first]
        sizes = [len(text) + 2 for text in first]
    else:
        if max_length < 5:
            raise WarmstartError(f"--max-length {max_length} is too short for pairs: 5 or more")
        for text, text2 in zip(first, second, strict=True):
            a, b = truncate_pair(text, text2, max_length - 3, rule)
            ids.append([bos, *a, eos, *b, eos])
            starts.append(len(a) + 2)
            sizes.append(len(text) + len(text2) + 3)
    return EncodedTexts(
        ids,
        None if second is None else starts,
        sum(size > max_length for size in sizes),
        sum(map(len, first)) + sum(map(len, second or ())),
        _count(first, tokenizer.unk) + _count(second or (), tokenizer.unk),
    )


def _count(texts: Sequence[Sequence[int]], token: int | None) -> int:
    return 0 if token is None else sum(text.count(token) for text in texts)


def describe_truncation(
    num_cut: int, num_texts: int, file: str, max_length: int, rule: Truncate, is_pair: bool = False
) -> str:
    """Say how many texts were truncated, and how."""
    noun = "pair" if is_pair else "text"
    texts = f"{num_texts:,} {noun}{'' if num_texts == 1 else 's'} in {file}"
    if not num_cut:
        fits = "fits" if num_texts == 1 else "fit"
        return f"all {texts} {fits} into {max_length:,} tokens"
    order = ", the longer text truncated first" if is_pair else ""
    return (
        f"{num_cut:,} of {texts} are longer than {max_length:,} tokens and keep only their "
        f"{REMAINDER[rule]}{order}"
    )
