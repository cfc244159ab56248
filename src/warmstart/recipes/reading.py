"""A text as it is given -> as a run's tokenizer reads it.

Knows nothing about files.
"""

from collections.abc import Callable

from warmstart.errors import WarmstartError
from warmstart.tokenization.pieces import join_pieces
from warmstart.tokenization.tokenizer import Tokenizer


def reader(run: str, tokenizer: Tokenizer, is_split: bool) -> Callable[[str], str]:
    """Return what a text passes through on its way to the tokenizer; it may be split already."""
    if tokenizer.kind != "pieces":
        return join_pieces if is_split else str
    if not is_split:
        raise WarmstartError(
            f"{run} reads a vocabulary of pieces, which cannot split text; "
            "add --pieces if the text is split already"
        )
    return str
