"""One text of a step function, for tests of what draws several."""

from collections.abc import Sequence

from warmstart.decoding.beam import Sampling, SpecialIds, Step, sampled_together


def sample(
    step: Step, prefix: Sequence[int], limit: int, special: SpecialIds, sampling: Sampling
) -> list[int]:
    """Return the tokens after the prefix, up to `limit` or the end token, which is left out."""
    return [tokens[0] for tokens in sampled_together(step, prefix, limit, special, [sampling])]
