"""A beam search, step by step: what was tried, kept, ended and dropped."""

from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "ended", "dropped"]
Path = tuple[int, ...]  # token ids from the first to the last


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A beginning of the target that one step considered."""

    path: Path
    piece: str  # its last token
    log_prob: float  # of all its tokens
    fate: Fate


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A whole target."""

    path: Path  # without the end token
    text: str
    log_prob: float  # of the target, its end token included
    score: float  # log_prob divided by the length penalty


@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """Every step of one search."""

    source: str
    width: int
    steps: tuple[tuple[Candidate, ...], ...]  # the most probable candidate of each step first
    endings: tuple[Ending, ...]  # by score, best first

    @property
    def num_dropped(self) -> int:
        """Return how many candidates of all steps were dropped."""
        return sum(candidate.fate == "dropped" for step in self.steps for candidate in step)

    def is_best(self, candidate: Candidate) -> bool:
        """Tell whether a candidate lies on the way to the best target."""
        best = self.endings[0].path
        is_end = candidate.fate == "ended" and candidate.path[:-1] == best
        return is_end or (candidate.path == best[: len(candidate.path)])

    @property
    def sentence(self) -> str:
        """Return the best target and where greedy search would have left its way."""
        best = self.steps[: len(self.endings[0].path) + 1]
        lost = next((i for i, step in enumerate(best, 1) if not self.is_best(step[0])), None)
        greedy = f"; at step {lost} another path was the most probable" if lost else ""
        return (
            f"{len(self.steps)} steps, {self.num_dropped} paths dropped: “{self.endings[0].text}” "
            f"(score {self.endings[0].score:.4f}){greedy}"
        )
