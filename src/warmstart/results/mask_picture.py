"""An attention mask with its tokens, and for each forbidden pair the reason."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALLOWED, LATER, DOCUMENT, PADDING = range(4)  # values of a cell


@dataclass(frozen=True, kw_only=True)
class MaskPicture:
    """One mask: each row is a query, each column a key."""

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    cells: NDArray[np.int8]  # (queries, keys): ALLOWED, or what forbids attention

    @property
    def sentence(self) -> str:
        """Return how many query-key pairs the mask allows, as a clause without a full stop."""
        is_allowed = self.cells == ALLOWED
        return (
            f"{self.title}: attention is allowed for {int(is_allowed.sum()):,} of "
            f"{is_allowed.size:,} query-key pairs ({is_allowed.mean():.0%})"
        )
