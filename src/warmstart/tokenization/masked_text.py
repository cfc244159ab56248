"""Texts in which words are masked, such as `A [MASK] book`: find the masks, encode around them."""

import re

from warmstart.tokenization.specials import USUAL
from warmstart.tokenization.tokenizer import Tokenizer

# Text after a mask is encoded behind one of these, because many tokenizers put a space before the
# first character they read. The second serves where letters would join the first.
ANCHORS = ("a", ".")


def mask_spellings(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return what may be written for a masked word: the tokenizer's own name first."""
    own = [] if tokenizer.mask is None else tokenizer.pieces([tokenizer.mask])
    return tuple(dict.fromkeys([*own, *USUAL["mask"]]))


def split_at_masks(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the texts between the masks, which are one less."""
    return re.split("|".join(map(re.escape, mask_spellings(tokenizer))), text)


def encode_masked(tokenizer: Tokenizer, parts: list[str]) -> list[int]:
    """Return the ids of a text from the parts between its masks, the mask tokens included."""
    assert tokenizer.mask is not None
    # The space before a masked word belongs to the token that is missing.
    first, *rest = [part.rstrip() for part in parts[:-1]] + parts[-1:]
    ids = tokenizer.encode([first])[0] if first else []
    for part in rest:
        ids += [tokenizer.mask, *_encode_inside(tokenizer, part)]
    return ids


def _encode_inside(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids that a text has inside a longer one."""
    for anchor in ANCHORS if text else ():
        before, ids = tokenizer.encode([anchor, anchor + text])
        if ids[: len(before)] == before:
            return ids[len(before) :]
    return tokenizer.encode([text])[0] if text else []
