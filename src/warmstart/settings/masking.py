"""The settings of the masked objective.

Knows nothing about how tokens are hidden.
"""

from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.settings.base import option


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What masked pretraining hides and judges."""

    mask_rate: float = option(0.15, help="share of the tokens that masked hides", above=0, most=0.9)
    whole_words: bool = option(False, help="masked hides all pieces of a word together")
    nsp: bool = option(True, help="masked judges too whether a second segment follows the first")

    def refuse_masking(self) -> None:
        """Refuse settings that say something where nothing is masked."""
        given = {
            "--mask-rate": self.mask_rate != Masking.mask_rate,
            "--whole-words": self.whole_words,
            "--no-nsp": not self.nsp,
        }
        for flag, is_given in given.items():
            if is_given:
                raise WarmstartError(f"{flag} has no effect without --objective masked")
