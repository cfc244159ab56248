"""Group copies and near-copies of texts, so that no group shares a text with another one."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from warmstart.data.fingerprints import Fingerprints
from warmstart.data.shingles import LEAST_WINDOWS, NEAR_COPY, Ints, Shingles


def group_copies(texts: Fingerprints) -> list[list[int]]:
    """Return the rows in groups: no text is a copy or near-copy of the texts of other groups."""
    _, first, numbers = np.unique(texts.texts, return_index=True, return_inverse=True)
    links = [(np.arange(len(texts)), first[numbers])]  # each text with the first of its copies
    links += _near_links(texts.shingles, numbers)
    rows, others = (np.concatenate(ends) for ends in zip(*links, strict=True))
    graph = coo_array((np.ones(len(rows)), (rows, others)), shape=(len(texts), len(texts)))
    groups: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(connected_components(graph)[1].tolist()):
        groups[group].append(row)
    return list(groups.values())


def _near_links(shingles: Shingles, texts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Link every near-copy with the texts that it has most in common with; `texts` tell copies.

    It is linked with as many as leave it less than a share of NEAR_COPY of its windows that also
    occur in texts without a link.
    """
    codes, windows = np.unique(shingles.codes, return_inverse=True)
    found_in = np.unique(windows * len(texts) + shingles.rows)  # (P,) a window and a row
    starts = np.searchsorted(found_in, np.arange(len(codes) + 1) * len(texts))
    found_in %= len(texts)  # (P,) the rows of one window after the other
    is_common = np.diff(starts)[windows] > 1
    ends = np.searchsorted(shingles.rows, np.arange(len(texts) + 1))
    for row, (start, end) in enumerate(pairwise(ends)):
        least = int(np.ceil(NEAR_COPY * (end - start)))
        if end - start < LEAST_WINDOWS or is_common[start:end].sum() < least:
            continue
        own = [found_in[starts[window] : starts[window + 1]] for window in windows[start:end]]
        rows, ranks = _rank(np.concatenate(own), texts, row)
        last = [ranks[np.searchsorted(rows, found)].max() for found in own]  # of each window
        linked = rows[(ranks > 0) & (ranks <= np.sort(last)[-least])]
        yield np.full(len(linked), row), linked


def _rank(found: Ints, texts: Ints, row: int) -> tuple[Ints, Ints]:
    """Return the rows found, and their ranks by how often: 1 is the most often, 0 a copy."""
    rows, counts = np.unique(found, return_counts=True)
    is_copy = texts[rows] == texts[row]  # or the text itself
    ranks = np.empty(len(rows), np.int64)
    ranks[np.lexsort((texts[rows], -counts, is_copy))] = np.arange(1, len(rows) + 1)
    ranks[is_copy] = 0
    return rows, ranks
