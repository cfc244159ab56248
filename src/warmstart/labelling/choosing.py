"""Choose texts that differ from each other and that a model is unsure of.

K-means divides the texts into as many groups as are wanted, and of each group the text nearest to
its centre is chosen. Only the texts that the model is most unsure of take part, and each weighs as
much as the model is unsure of it (Zhdanov 2019), so that groups form where labels decide something.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
CANDIDATES = 10  # for each text that is wanted: those that the model is most unsure of
LEAST_WEIGHT = 1e-6  # of the surest text, relative to the unsurest
MAX_ROUNDS = 30  # of k-means; later ones move few texts
MAX_DIMENSIONS = 64  # that tell texts apart; later ones are mostly noise


def choose_texts(vectors: Floats, uncertainty: Floats | None, num: int, seed: int) -> list[int]:
    """Return the rows of `num` texts, the one to label first at the beginning.

    `vectors` are (texts, D). With uncertainty the order is by it; without, by the size of groups.
    """
    if uncertainty is None:
        return _spread(vectors, None, num, seed)
    unsure = np.argsort(-uncertainty, kind="stable")[: CANDIDATES * num]
    return unsure[_spread(vectors[unsure], uncertainty[unsure], num, seed)].tolist()


def _spread(vectors: Floats, uncertainty: Floats | None, num: int, seed: int) -> list[int]:
    """Return the rows of texts that differ from each other; uncertainty weighs and orders them."""
    num = min(num, len(vectors))
    if num == 0:
        return []
    points = directions(vectors)
    weights = np.ones(len(points)) if uncertainty is None else uncertainty_weights(uncertainty)
    centres, groups = _group(points, weights, num, seed)
    chosen = _nearest(points, centres)
    ranks = np.bincount(groups) if uncertainty is None else uncertainty[chosen]
    ordered = [chosen[number] for number in np.argsort(-ranks, kind="stable")]
    others = np.setdiff1d(np.arange(len(points)), chosen)
    np.random.default_rng(seed).shuffle(others)
    return [*ordered, *others[: num - len(ordered)].tolist()]  # where many texts are the same


def principal_components(vectors: Floats) -> Floats:
    """Return vectors in the dimensions in which they differ most."""
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)  # the largest last
    projected: Floats = centred @ axes[:, ::-1][:, :MAX_DIMENSIONS]
    return projected


def directions(vectors: Floats) -> Floats:
    """Return vectors of length one, without what all texts share."""
    points = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    divided: Floats = points / np.where(lengths > 1e-12, lengths, 1.0)
    return divided


def uncertainty_weights(uncertainty: Floats) -> Floats:
    """Return the weight of every text, of which the unsurest has one."""
    relative = uncertainty / max(float(uncertainty.max()), 1e-12)
    weights: Floats = np.maximum(relative, LEAST_WEIGHT)
    return weights


def _group(points: Floats, weights: Floats, num: int, seed: int) -> tuple[Floats, NDArray[np.intp]]:
    """Return the centres of groups, and the group of every text."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    num_distinct = len(np.unique(points, axis=0))
    found = KMeans(min(num, num_distinct), n_init=1, max_iter=MAX_ROUNDS, random_state=seed)
    with threadpool_limits(1):
        found.fit(points, sample_weight=weights)
    return found.cluster_centers_, found.labels_


def _nearest(points: Floats, centres: Floats) -> list[int]:
    """Return the text nearest to every centre, each text once."""
    is_free = np.ones(len(points), bool)
    chosen = []
    for centre in centres:
        distances = np.where(is_free, ((points - centre) ** 2).sum(axis=1), np.inf)
        chosen.append(int(distances.argmin()))
        is_free[chosen[-1]] = False
    return chosen
