"""An attention mask with its tokens, and for each forbidden pair the reason."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Values of a cell: attention is allowed (of a token, or of padding, whose output nobody reads), or
# what forbids it.
ALLOWED, UNREAD, LATER, DOCUMENT, PADDING = range(5)


@dataclass(frozen=True, kw_only=True)
class MaskPicture:
    """One mask: each row is a query, each column a key."""

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    cells: NDArray[np.int8]  # (queries, keys)

    @property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Tell which pairs the model's own mask allows: (queries, keys)."""
        return (self.cells == ALLOWED) | (self.cells == UNREAD)

    @property
    def sentence(self) -> str:
        """Return how many query-key pairs the mask allows, as a clause without a full stop."""
        num_allowed, num_unread = int(self.is_allowed.sum()), int((self.cells == UNREAD).sum())
        unread = f", {num_unread:,} of them for padding, whose output is not used"
        return (
            f"{self.title}: attention is allowed for {num_allowed:,} of {self.cells.size:,} "
            f"query-key pairs ({self.is_allowed.mean():.0%}){unread if num_unread else ''}"
        )
