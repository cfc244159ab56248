"""Tags of words: plain ones, such as word classes, or tags that mark entities.

B- begins an entity and I- continues it; O is outside. Some files and models also write E- (L-) for
the last word of an entity and S- (U-) for one of a single word.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from warmstart.formats import quantity

Tags = Sequence[str]  # of the words of one sentence
OUTSIDE = "O"
FIRST, INSIDE, LAST, SINGLE = "B", "I", "EL", "SU"
MOST_SHOWN = 8  # kinds of tags in a description


def split_tag(tag: str) -> tuple[str, str]:
    """Return the letter and the kind of a tag; of O, and of a plain tag, the kind is empty."""
    letter, dash, kind = tag.partition("-")
    is_marked = dash and kind and letter in (FIRST, INSIDE, *LAST, *SINGLE)
    return (letter, kind) if is_marked else (OUTSIDE if tag == OUTSIDE else "", "")


def marks_entities(tags: Iterable[str]) -> bool:
    """Tell whether tags mark entities; plain tags, such as word classes, do not."""
    return all(split_tag(tag)[0] for tag in tags)


def to_bio(tags: Tags) -> tuple[list[str], int]:
    """Return tags as B-, I- and O, and how many entities did not begin with B- or S-."""
    written, num_repaired, inside = [], 0, ""  # inside: the kind of the entity before
    for tag in tags:
        letter, kind = split_tag(tag)
        if letter == OUTSIDE:
            written.append(OUTSIDE)
        elif letter in (INSIDE, *LAST) and kind == inside:
            written.append(f"I-{kind}")
        else:
            written.append(f"B-{kind}")
            num_repaired += letter in (INSIDE, *LAST)
        inside = "" if letter in (*LAST, *SINGLE) else kind
    return written, num_repaired


def describe_tags(tags: Sequence[Sequence[str]]) -> str:
    """Say which tags there are: kinds of entities, or plain tags."""
    counts = Counter(chain.from_iterable(tags))
    sizes = f"{quantity(len(tags), 'sentence')} of {quantity(counts.total(), 'word')}"
    if not marks_entities(counts):
        return f"{sizes}, {quantity(len(counts), 'plain tag')} ({_list(sorted(counts))})"
    kinds = sorted({split_tag(tag)[1] for tag in counts} - {""})
    return f"{sizes}, tags of {quantity(len(kinds), 'kind')} of entity ({_list(kinds) or 'none'})"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def count_tags(tags: Iterable[Sequence[str]]) -> Counter[str]:
    """Return how many entities of each kind there are, or how many words have each plain tag."""
    counts = Counter(chain.from_iterable(tags))
    if not marks_entities(counts):
        return counts
    begun = {split_tag(tag)[1]: num for tag, num in counts.items() if split_tag(tag)[0] == "B"}
    return Counter(begun)
