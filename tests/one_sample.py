"""One text of a step function, for tests of what draws several."""

from collections.abc import Sequence

import torch

from warmstart.decoding.beam import SpecialIds, Step, sample_texts
from warmstart.settings.using import Sampling

GREEDY = Sampling(temperature=0)


def sample(
    step: Step,
    prefix: Sequence[int],
    limit: int,
    special: SpecialIds,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> list[int]:
    """Return the tokens after the prefix, up to `limit` or the end token, which is left out."""
    generator = torch.Generator().manual_seed(seed)
    drawn = sample_texts(step, prefix, limit, special, sampling, [generator])
    return [tokens[0] for tokens in drawn]
