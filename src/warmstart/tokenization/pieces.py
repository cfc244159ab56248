"""Text that is already split into pieces, `▁Que ▁fai re`, and back.

Knows nothing about vocabularies.
"""

SPACE_MARK = "▁"  # begins a word


def join_pieces(text: str) -> str:
    """Return the text that these pieces were split from."""
    return "".join(text.split()).replace(SPACE_MARK, " ").strip()
