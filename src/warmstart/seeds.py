"""Seeds derived from names, and random numbers of a seed, a row and a position alone.

No stream of random numbers is shared, so a resumed run has nothing to replay.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, so its multiples are all distinct


def derive_seed(*parts: int | str) -> int:
    """Return a 63-bit seed that depends on every part and on their order."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def permutation(num: int, *seed: int | str) -> NDArray[np.int64]:
    """Return a permutation that depends on the seed alone."""
    return np.random.Generator(np.random.PCG64(derive_seed(*seed))).permutation(num)


def bits_of(seed: int, rows: NDArray[np.int64], num: int) -> Bits:
    """Return `num` numbers of 64 random bits for each row: (rows, num)."""
    keys = _mix_bits(rows.astype(np.uint64) * _STEP + np.uint64(seed))
    positions = np.arange(1, num + 1, dtype=np.uint64) * _STEP
    return _mix_bits(keys[:, None] + positions)


def shares_of(bits: Bits) -> NDArray[np.float64]:
    """Return the bits as numbers from 0 to below 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def picks_of(bits: Bits, nums: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the bits as whole numbers from 0 to below `nums`."""
    return (shares_of(bits) * nums).astype(np.int64)


def _mix_bits(bits: Bits) -> Bits:
    """Mix the bits: the finalizer of SplitMix64 (Steele et al., 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
