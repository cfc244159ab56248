"""Refuse tokenizers that would take all memory, before a library reads them or a text."""

import base64
import json
import string
from collections.abc import Iterator, Mapping
from typing import Any

import tokenizers

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import has_many_values

PROBES = ("", " a, 1!", "a" * 64 + "!", " " * 64 + ".", "Été\n\t漢 👩‍👩‍👧 e\u0301")
MOST_UNUSED = 100_000  # ids without an entry
MOST_GROWTH = 128  # times; U+FDFA has 18 characters in its normal form
MOST_STEPS = 256  # of a normalizer or decoder
LONGEST_CONTENT = 32  # characters that replace a match or begin a text
_LONGEST_PROBE = 1 << 19  # characters


def check_definition(content: bytes) -> None:
    """Refuse a tokenizer.json whose merges or normalizer no library should be given."""
    if has_many_values(content):
        raise WarmstartError("a tokenizer.json with too many values")
    try:
        spec = json.loads(content)
        model = spec["model"]
        parts = [*_steps(spec.get("normalizer")), *_steps(spec.get("decoder"))]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return  # the library says what is wrong with it
    _check_merges(model)
    _check_growth(parts)


def _check_merges(model: Mapping[str, Any]) -> None:
    """Refuse merges that repeat, and those without the prefix of their second piece.

    The library cuts the prefix off unchecked, and ends the process if that splits a character.
    """
    try:
        prefix, merges = model.get("continuing_subword_prefix") or "", model.get("merges") or ()
        num_splits = sum(map(len, model["vocab"]))  # a piece is merged from two parts
        if len(merges) > num_splits:
            raise WarmstartError(
                f"{len(merges):,} merges, but the pieces of its vocabulary can be split in "
                f"{num_splits:,} ways at most, so some are repeated"
            )
        pairs = (each.split(" ") if isinstance(each, str) else each for each in merges)
        is_cut = any(not pair[-1].startswith(prefix) for pair in pairs)
    except (LookupError, TypeError, AttributeError):
        return
    if is_cut:
        raise WarmstartError(f"merges without the continuing_subword_prefix {prefix[:20]!r}")


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or decoder in order, those of sequences included."""
    if not isinstance(part, dict):
        return
    nested = part.get("normalizers") or part.get("decoders")
    if part.get("type") != "Sequence" or not isinstance(nested, list):
        yield part
        return
    for step in nested:
        yield from _steps(step)


def _check_growth(steps: list[dict[str, Any]]) -> None:
    """Refuse steps that multiply text: measure it after each one, on what they look for and write.

    A chain that multiplies must find what an earlier step wrote, so the probe holds all of that.
    """
    if len(steps) > MOST_STEPS:
        raise WarmstartError(f"{len(steps):,} steps in its normalizer and decoder, too many")
    text = "".join((*PROBES, string.printable, *(_check_texts(step) for step in steps)))
    most_chars = min(MOST_GROWTH * len(text), _LONGEST_PROBE)
    largest = 1
    for step in steps:
        if step.get("type") == "Precompiled":
            largest *= _longest_mapping(step)
        if step.get("type") in ("Replace", "Prepend", "Precompiled"):
            text = _apply(step, text)
        if len(text) > most_chars or largest > MOST_GROWTH:
            raise WarmstartError(
                f"its normalizer or decoder makes text more than {MOST_GROWTH} times as long"
            )


def _check_texts(step: dict[str, Any]) -> str:
    """Return what a step looks for and writes; refuse a text that is too long."""
    pattern = step.get("pattern")
    searched = pattern.get("String") if isinstance(pattern, dict) else None
    texts = [text for key in ("content", "prepend") if isinstance(text := step.get(key), str)]
    if any(len(text) > LONGEST_CONTENT for text in texts):
        raise WarmstartError(
            f"its {step['type']} writes a text of more than {LONGEST_CONTENT} characters"
        )
    return "".join(texts) + (searched[:LONGEST_CONTENT] if isinstance(searched, str) else "")


def _apply(step: dict[str, Any], text: str) -> str:
    """Return a text after one step; a step that the library refuses is refused when it is used."""
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    spec = json.dumps({"version": "1.0", "normalizer": step, "model": model, "added_tokens": []})
    try:
        normalizer: Any = tokenizers.Tokenizer.from_str(spec).normalizer
        return str(normalizer.normalize_str(text))
    except BaseException as error:  # panics of Rust have a class that cannot be imported
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return text


def _longest_mapping(step: dict[str, Any]) -> int:
    try:
        return longest_mapping(base64.b64decode(step.get("precompiled_charsmap") or ""))
    except (ValueError, TypeError):
        return 1


def longest_mapping(charsmap: bytes) -> int:
    """Return the length of the longest text that a SentencePiece character map writes.

    It holds the size of a trie, the trie, and texts that end with NUL.
    """
    size = int.from_bytes(charsmap[:4], "little")
    return max(len(text.decode(errors="replace")) for text in charsmap[4 + size :].split(b"\0"))


def check_charsmap(charsmap: bytes) -> None:
    """Refuse a SentencePiece character map that makes text far longer."""
    if longest_mapping(charsmap) > MOST_GROWTH:
        raise WarmstartError(f"its normalizer makes text more than {MOST_GROWTH} times as long")


def check_ids(vocab: Mapping[str, int]) -> None:
    """Refuse ids far beyond the vocabulary: the library takes memory for each one between."""
    largest = max(vocab.values())
    if largest >= len(vocab) + MOST_UNUSED:
        raise WarmstartError(f"the id {largest:,} in a vocabulary of {len(vocab):,} entries")
