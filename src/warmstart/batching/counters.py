"""Counter-based random numbers: they depend on a seed, a row's number and a position alone.

The same row gets the same numbers in every batch.
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, so its multiples are all distinct


def bits_of(seed: int, rows: NDArray[np.int64], num: int) -> Bits:
    """Return `num` numbers of 64 random bits for each row: (rows, num)."""
    keys = _mixed(rows.astype(np.uint64) * _STEP + np.uint64(seed))
    positions = np.arange(1, num + 1, dtype=np.uint64) * _STEP
    return _mixed(keys[:, None] + positions)


def shares_of(bits: Bits) -> NDArray[np.float64]:
    """Return the bits as numbers from 0 to below 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def picks_of(bits: Bits, nums: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the bits as whole numbers from 0 to below `nums`."""
    return (shares_of(bits) * nums).astype(np.int64)


def _mixed(bits: Bits) -> Bits:
    """Mix the bits: the finalizer of SplitMix64 (Steele et al., 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
