"""Greedy and beam search with length penalty; greedy is a beam of one.

Sees a step function, never a Transformer. The rows of one source stand together, `width` of them;
a source that is finished leaves, so that later steps have fewer rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.decoding.sample import Step

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Beam:
    """How wide to search, and what counts as best."""

    width: int = 5
    length_penalty: float = 1.0  # 0: plain log-probability; more favours longer targets
    num_best: int = 1  # at most the width


@dataclass(frozen=True)
class Hypothesis:
    """A whole target, its end token left out."""

    ids: tuple[int, ...]
    log_prob: float  # of the target, its end included
    score: float  # what was compared: log_prob over the penalty of its length


STRETCH = 64  # entries of a row whose largest is looked for together


def penalty(length: int, alpha: float) -> float:
    """Return the divisor for a target of so many tokens, end included: ((5 + n) / 6) ** alpha."""
    return ((5 + length) / 6) ** alpha


def beam_search(
    step: Step,
    limits: Sequence[int],
    bos: int,
    eos: int,
    beam: Beam | None = None,
    forbidden: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Return the best targets of every source, of at most so many tokens before the end."""
    beam = beam or Beam()
    if not limits:
        return []
    search = _Search(list(limits), bos, eos, beam, forbidden)
    while search.alive:
        search.advance(step(search.prefixes, search.parents))
    return [_ranked(found, beam.num_best) for found in search.finished]


def _ranked(found: list[Hypothesis], num: int) -> list[Hypothesis]:
    return sorted(found, key=lambda one: -one.score)[:num]


def best_of(logs: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Return the `num` largest of each row (N, V) in falling order, and where they stand."""
    if num == 1:
        found, places = logs.max(1, keepdim=True)
        return found, places
    N, V = logs.shape
    if 4 * STRETCH * num > V or logs.device.type != "cpu":
        found, places = logs.topk(num, dim=1)
        return found, places
    # A CPU finds maxima much faster than it sorts, and the largest stand in the `num` stretches
    # that have the largest maxima.
    whole = V // STRETCH * STRETCH
    stretches = logs[:, :whole].view(N, -1, STRETCH)
    chosen = stretches.amax(2).topk(num, dim=1).indices  # (N, num)
    index = (chosen[:, :, None] * STRETCH + torch.arange(STRETCH)).view(N, -1)
    index = torch.cat([index, torch.arange(whole, V).expand(N, -1)], dim=1)
    found, places = logs.gather(1, index).topk(num, dim=1)
    return found, index.gather(1, places)


class _Search:
    """The rows still searched; `alive` names their sources, `width` rows each."""

    def __init__(
        self, limits: list[int], bos: int, eos: int, beam: Beam, forbidden: Sequence[int]
    ) -> None:
        self.limits, self.eos, self.beam = limits, eos, beam
        self.never = torch.tensor(sorted(set(forbidden) - {eos}), dtype=torch.long)
        self.alive = list(range(len(limits)))
        self.nearest_limit, self.has_ended = min(limits), False
        self.finished: list[list[Hypothesis]] = [[] for _ in limits]
        num_rows = len(limits) * beam.width
        self.prefixes = torch.full((num_rows, 1), bos)
        self.parents = torch.arange(num_rows)
        # All rows of a source begin alike: only the first one counts.
        self.totals = torch.full((len(limits), beam.width), float("-inf"), dtype=torch.float64)
        self.totals[:, 0] = 0.0

    @property
    def length(self) -> int:
        """Return how many tokens the targets have so far."""
        return self.prefixes.shape[1] - 1

    def advance(self, logs: Tensor) -> None:
        """Take in the log-probabilities (N, V) of the next token of every row."""
        W = self.beam.width
        if len(self.never):
            self.never = self.never.to(logs.device)
            logs.index_fill_(1, self.never, float("-inf"))
        # Ends never crowd out what goes on: of twice the width at most half can be ends.
        num = min(2 * W if W > 1 else 1, logs.shape[1])
        each, tokens = best_of(logs, num)  # (N, num)
        sums = self.totals.to(logs.device).reshape(-1, 1) + each.double()
        best, places = best_of(sums.view(-1, W * num), min(2 * W, W * num))  # (B, 2W)
        picked = tokens.view(-1, W * num).gather(1, places)
        rows = places // num  # which of the source's own rows
        if self._is_uneventful(best, picked):
            first = torch.arange(0, len(self.prefixes), W)[:, None]
            self._go_on(best[:, :W], first + rows[:, :W], picked[:, :W])
            return
        # In one piece, because a GPU is waited for each time; all three are exact as doubles.
        found = torch.stack([best, rows.double(), picked.double()]).cpu().numpy()
        self._settle(logs, found[0], found[1].astype(np.int64), found[2].astype(np.int64))

    def _is_uneventful(self, best: Tensor, picked: Tensor) -> bool:
        """Tell whether nothing ended yet or ends now: all sources go on with their best."""
        if best.device.type != "cpu" or self.has_ended or self.length >= self.nearest_limit:
            return False
        is_full = bool(best[:, self.beam.width - 1].min() > float("-inf"))
        return is_full and not bool((picked == self.eos).any())

    def _go_on(self, totals: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Continue these rows by these tokens, all (B, W)."""
        self.totals, self.parents = totals, parents.reshape(-1)
        is_same = torch.equal(self.parents, torch.arange(len(self.prefixes)))
        before = self.prefixes if is_same else self.prefixes[self.parents]
        self.prefixes = torch.cat([before, tokens.reshape(-1, 1)], dim=1)

    def _settle(self, logs: Tensor, best: Floats, rows: Integers, picked: Integers) -> None:
        """Note the targets that end here and keep the best that go on."""
        W = self.beam.width
        is_there = best > -np.inf
        is_end = picked == self.eos
        for place, rank in zip(*np.nonzero(is_there[:, :W] & is_end[:, :W]), strict=True):
            if self.length < self.limits[self.alive[place]]:
                row = place * W + rows[place, rank]
                self._finish(self.alive[place], int(row), float(best[place, rank]))
        goes_on = is_there & ~is_end
        stays = self._staying(logs, np.where(goes_on, best, -np.inf).max(1))
        self.alive = [self.alive[place] for place in stays]
        if not stays:
            return
        # Those that go on, in falling order; where they are fewer than rows, the rest stand empty.
        order = np.argsort(~goes_on[stays], axis=1, kind="stable")[:, :W]
        best, rows, picked, goes_on = (
            np.take_along_axis(one[stays], order, 1) for one in (best, rows, picked, goes_on)
        )
        first = W * np.array(stays)[:, None]
        parents = np.where(goes_on, first + rows, first)
        chosen = np.where(goes_on, picked, self.eos)
        totals = np.where(goes_on, best, -np.inf)
        self._go_on(*map(torch.from_numpy, (totals, parents, chosen)))

    def _staying(self, logs: Tensor, hopes: Floats) -> list[int]:
        """Return the places of sources that are searched on; at the limit all of it ends."""
        stays = []
        for place, source in enumerate(self.alive):
            if self.length >= self.limits[source]:
                self._end_all(source, place * self.beam.width, logs)
            elif hopes[place] > -np.inf and not self._is_settled(source, float(hopes[place])):
                stays.append(place)
        return stays

    def _end_all(self, source: int, first: int, logs: Tensor) -> None:
        """At the limit every target must end here."""
        rows = slice(first, first + self.beam.width)
        totals, ends = self.totals.reshape(-1)[rows].tolist(), logs[rows, self.eos].tolist()
        for row, (total, end) in enumerate(zip(totals, ends, strict=True), first):
            if total != float("-inf"):
                self._finish(source, row, total + end)

    def _finish(self, source: int, row: int, total: float) -> None:
        self.has_ended = True
        ids = tuple(self.prefixes[row, 1:].tolist())
        score = total / penalty(len(ids) + 1, self.beam.length_penalty)
        self.finished[source].append(Hypothesis(ids, total, score))

    def _is_settled(self, source: int, best: float) -> bool:
        """Tell whether enough has ended, or nothing that goes on can still be among the best."""
        found = self.finished[source]
        if not found:
            return False
        num = self.beam.num_best
        if len(found) >= self.beam.width or len(found) < num:
            return len(found) >= self.beam.width
        # A total only falls; the divisor is largest at the limit.
        hope = best / penalty(self.limits[source] + 1, max(0.0, self.beam.length_penalty))
        return sorted((one.score for one in found), reverse=True)[num - 1] >= hope
