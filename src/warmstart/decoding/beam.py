"""Sampling and beam search over a step function."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.errors import OVERFLOW, WarmstartError
from warmstart.settings.using import Beam, Sampling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GROUP_SIZE = 64  # entries of a row that are searched for their maximum together
Step = Callable[[Tensor, Tensor], Tensor]  # (N, T) prefixes, (N,) parents -> (N, V) log-probs


@dataclass(frozen=True)
class Hypothesis:
    """A complete target without its end token."""

    ids: tuple[int, ...]
    log_prob: float  # of the target, its end token included
    score: float  # log_prob divided by the length penalty


def penalty(length: int, alpha: float) -> float:
    """Return the divisor for a target of n tokens, the end included: ((5 + n) / 6) ** alpha."""
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class SpecialIds:
    """The ids that begin and end a generated text, and those that must not occur in it."""

    bos: int
    eos: int
    suppressed: Sequence[int] = ()


def beam_search(
    step: Step, limits: Sequence[int], special: SpecialIds, beam: Beam, n_best: int = 1
) -> list[list[Hypothesis]]:
    """Return each source's best targets of at most `limits` tokens before the end token."""
    if not limits:
        return []
    search = _Search(list(limits), special, beam, n_best)
    while search.active:
        search.advance(step(search.prefixes, search.parents))
    return [
        sorted(finished, key=lambda hypothesis: -hypothesis.score)[:n_best]
        for finished in search.finished
    ]


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` largest entries of each row (N, V) in falling order, and their indices."""
    if k == 1:
        largest, indices = values.max(1, keepdim=True)
        return largest, indices
    N, V = values.shape
    if 4 * GROUP_SIZE * k > V or values.device.type != "cpu":
        largest, indices = values.topk(k, dim=1)
        return largest, indices
    # A CPU finds maxima much faster than it sorts, and the largest entries are in the `k` groups
    # with the largest maxima.
    end = V // GROUP_SIZE * GROUP_SIZE
    groups = values[:, :end].view(N, -1, GROUP_SIZE)
    chosen = groups.amax(2).topk(k, dim=1).indices  # (N, k)
    candidates = (chosen[:, :, None] * GROUP_SIZE + torch.arange(GROUP_SIZE)).view(N, -1)
    candidates = torch.cat([candidates, torch.arange(end, V).expand(N, -1)], dim=1)
    largest, indices = values.gather(1, candidates).topk(k, dim=1)
    return largest, candidates.gather(1, indices)


class _Search:
    """The state of a search; `active` lists the sources still searched, `width` rows each."""

    def __init__(self, limits: list[int], special: SpecialIds, beam: Beam, n_best: int) -> None:
        self.limits, self.eos = limits, special.eos
        self.width, self.length_penalty, self.n_best = beam.beam, beam.length_penalty, n_best
        suppressed = sorted(set(special.suppressed) - {special.eos})
        self.suppressed = torch.tensor(suppressed, dtype=torch.long)
        self.active = list(range(len(limits)))
        self.lowest_limit, self.has_finished = min(limits), False
        self.finished: list[list[Hypothesis]] = [[] for _ in limits]
        num_rows = len(limits) * self.width
        self.prefixes = torch.full((num_rows, 1), special.bos)
        self.parents = torch.arange(num_rows)
        # All rows of a source begin alike, so only the first one counts.
        self.totals = torch.full((len(limits), self.width), float("-inf"), dtype=torch.float64)
        self.totals[:, 0] = 0.0

    @property
    def length(self) -> int:
        """Return how many tokens the targets have so far."""
        return self.prefixes.shape[1] - 1

    def advance(self, log_probs: Tensor) -> None:
        """Extend every row by its next token, given log-probabilities (N, V)."""
        W = self.width
        if len(self.suppressed):
            self.suppressed = self.suppressed.to(log_probs.device)
            log_probs.index_fill_(1, self.suppressed, float("-inf"))
        # Of twice the width, at most half can be ends; so enough candidates continue.
        k = min(2 * W if W > 1 else 1, log_probs.shape[1])
        row_best, tokens = top_k(log_probs, k)  # (N, k)
        sums = self.totals.to(log_probs.device).reshape(-1, 1) + row_best.double()
        totals, indices = top_k(sums.view(-1, W * k), min(2 * W, W * k))  # (B, 2W)
        tokens = tokens.view(-1, W * k).gather(1, indices)
        slots = indices // k  # which of the source's own rows
        if self._all_continue(totals, tokens):
            first_rows = torch.arange(0, len(self.prefixes), W)[:, None]
            self._continue(totals[:, :W], first_rows + slots[:, :W], tokens[:, :W])
            return
        # In one transfer, because each one waits for a GPU; all three are exact as doubles.
        best = torch.stack([totals, slots.double(), tokens.double()]).cpu().numpy()
        self._finish_and_continue(
            log_probs, best[0], best[1].astype(np.int64), best[2].astype(np.int64)
        )

    def _all_continue(self, totals: Tensor, tokens: Tensor) -> bool:
        """Tell whether nothing has ended and nothing ends now: every source keeps its best."""
        if totals.device.type != "cpu" or self.has_finished or self.length >= self.lowest_limit:
            return False
        is_full = bool(totals[:, self.width - 1].min() > float("-inf"))
        return is_full and not bool((tokens == self.eos).any())

    def _continue(self, totals: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Extend these parent rows by these tokens, all (B, W)."""
        self.totals, self.parents = totals, parents.reshape(-1)
        is_same = torch.equal(self.parents, torch.arange(len(self.prefixes)))
        prefixes = self.prefixes if is_same else self.prefixes[self.parents]
        self.prefixes = torch.cat([prefixes, tokens.reshape(-1, 1)], dim=1)

    def _finish_and_continue(
        self, log_probs: Tensor, totals: Floats, slots: Integers, tokens: Integers
    ) -> None:
        """Finish the targets that end here and continue the best of the others."""
        W = self.width
        is_possible = totals > -np.inf
        is_end = tokens == self.eos
        for index, rank in zip(*np.nonzero(is_possible[:, :W] & is_end[:, :W]), strict=True):
            if self.length < self.limits[self.active[index]]:
                row = index * W + slots[index, rank]
                self._finish(self.active[index], int(row), float(totals[index, rank]))
        continues = is_possible & ~is_end
        remaining = self._remaining_sources(log_probs, np.where(continues, totals, -np.inf).max(1))
        self.active = [self.active[index] for index in remaining]
        if not remaining:
            return
        # Candidates that continue, in falling order; where they are too few, rows stay empty.
        order = np.argsort(~continues[remaining], axis=1, kind="stable")[:, :W]
        totals, slots, tokens, continues = (
            np.take_along_axis(candidates[remaining], order, 1)
            for candidates in (totals, slots, tokens, continues)
        )
        first_rows = W * np.array(remaining)[:, None]
        parents = np.where(continues, first_rows + slots, first_rows)
        tokens = np.where(continues, tokens, self.eos)
        totals = np.where(continues, totals, -np.inf)
        self._continue(*map(torch.from_numpy, (totals, parents, tokens)))

    def _remaining_sources(self, log_probs: Tensor, best_totals: Floats) -> list[int]:
        """Return which active sources are searched further; at its limit a source is finished."""
        remaining = []
        for index, source in enumerate(self.active):
            best = float(best_totals[index])
            if self.length >= self.limits[source]:
                self._finish_all(source, index * self.width, log_probs)
            elif best > -np.inf and not self._is_done(source, best):
                remaining.append(index)
        return remaining

    def _finish_all(self, source: int, first_row: int, log_probs: Tensor) -> None:
        """End every target of a source that has reached its limit."""
        rows = slice(first_row, first_row + self.width)
        totals, ends = self.totals.reshape(-1)[rows].tolist(), log_probs[rows, self.eos].tolist()
        for row, (total, end) in enumerate(zip(totals, ends, strict=True), first_row):
            if total != float("-inf"):
                self._finish(source, row, total + end)

    def _finish(self, source: int, row: int, log_prob: float) -> None:
        self.has_finished = True
        ids = tuple(self.prefixes[row, 1:].tolist())
        score = log_prob / penalty(len(ids) + 1, self.length_penalty)
        self.finished[source].append(Hypothesis(ids, log_prob, score))

    def _is_done(self, source: int, best_total: float) -> bool:
        """Tell whether enough targets ended, or no later one can be among the best."""
        finished, n_best = self.finished[source], self.n_best
        if not finished:
            return False
        if len(finished) >= self.width or len(finished) < n_best:
            return len(finished) >= self.width
        # A total only falls, and the divisor is largest at the limit.
        best_score = best_total / penalty(self.limits[source] + 1, self.length_penalty)
        scores = sorted((hypothesis.score for hypothesis in finished), reverse=True)
        return scores[n_best - 1] >= best_score


def to_log_probs(logits: Tensor) -> Tensor:
    """Return log-probabilities (N, V) in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def sample_texts(
    step: Step,
    prefix: Sequence[int],
    limit: int,
    special: SpecialIds,
    sampling: Sampling,
    generators: Sequence[torch.Generator],
) -> Iterator[dict[int, int]]:
    """Continue a prefix once with each generator; yield the next token of each unfinished text."""
    texts = list(range(len(generators)))  # that have not ended: a row each
    prefixes, parents = torch.tensor([list(prefix)] * len(texts)), torch.arange(len(texts))
    suppressed = torch.tensor(list(special.suppressed), dtype=torch.long)
    for _ in range(limit):
        log_probs = step(prefixes, parents).float().index_fill(1, suppressed, float("-inf"))
        rows = zip(log_probs, texts, strict=True)
        tokens = [draw(row, sampling, generators[text]) for row, text in rows]
        parents = torch.tensor([row for row, token in enumerate(tokens) if token != special.eos])
        if not len(parents):
            return
        texts, tokens = ([kept[row] for row in parents.tolist()] for kept in (texts, tokens))
        prefixes = torch.cat([prefixes[parents], torch.tensor(tokens)[:, None]], dim=1)
        yield dict(zip(texts, tokens, strict=True))


def draw(log_probs: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Return one token, given log-probabilities (V,)."""
    largest, token = log_probs.max(0)
    if largest.isnan():
        raise WarmstartError(f"the model's probabilities are NaN; {OVERFLOW}")
    if sampling.temperature == 0:
        return int(token)
    # In float64, with the largest at zero: no temperature above zero overflows every logit.
    logits = ((log_probs - largest).double() / sampling.temperature).float()
    if sampling.top_k is not None:
        top = logits.topk(min(sampling.top_k, len(logits))).indices
        logits = torch.full_like(logits, float("-inf")).index_copy(0, top, logits[top])
    probs = logits.softmax(-1)
    if sampling.top_p is None:
        return int(torch.multinomial(probs, 1, generator=generator))
    probs, order = probs.sort(descending=True, stable=True)
    is_beyond = probs.cumsum(-1) - probs >= sampling.top_p
    is_beyond[0] = False  # the most probable token always stays
    probs = probs.masked_fill(is_beyond, 0.0)
    return int(order[torch.multinomial(probs, 1, generator=generator)])
