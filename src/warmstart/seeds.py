"""Randomness from names: a seed and a position in the job give the same numbers, always.

Nothing is drawn from a shared stream, so nothing has to be replayed to go on from the middle.
"""

from hashlib import blake2b


def derive_seed(*parts: int | str) -> int:
    """Return a 63-bit seed that depends on every part and on their order."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
