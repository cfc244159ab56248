"""Text that is already split into pieces, such as `▁Que ▁fai re`: join it, or read it."""

from collections.abc import Callable

from warmstart.errors import WarmstartError
from warmstart.tokenization.tokenizer import Tokenizer

SPACE_MARK = "▁"  # how a piece writes a space


def join_pieces(text: str) -> str:
    """Return the text that these pieces were split from."""
    return "".join(text.split()).replace(SPACE_MARK, " ").strip()


def text_reader(tokenizer: Tokenizer, is_split: bool, name: str) -> Callable[[str], str]:
    """Return the function that prepares a text, perhaps already split, for the tokenizer.

    `name` is the run or the file that an error refers to.
    """
    if tokenizer.kind != "pieces":
        return join_pieces if is_split else str
    if not is_split:
        raise WarmstartError(
            f"{name}: the tokenizer is a vocabulary of pieces, which cannot split text; "
            "add --pieces if the text is already split"
        )
    return str
