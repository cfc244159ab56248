"""Seeds derived from names: a seed and a position in the job always give the same numbers.

No stream of random numbers is shared, so a resumed run has nothing to replay.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def derive_seed(*parts: int | str) -> int:
    """Return a 63-bit seed that depends on every part and on their order."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def shuffled(num: int, *seed: int | str) -> NDArray[np.int64]:
    """Return a permutation that depends on the seed alone."""
    return np.random.Generator(np.random.PCG64(derive_seed(*seed))).permutation(num)
