"""The order in which cells are trained, and those that are dropped to end within the minutes.

The plan is made anew whenever a job is finished, from how long jobs took so far. It drops whole
cells: first those of cold arms, then seeds, then label subsets, the largest first. A cell that is
trained does not depend on the clock.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from warmstart import progress
from warmstart.comparison.budget import MIN_SEEDS, REPORT_S, ArmPace, steps_of, wall_s
from warmstart.comparison.cells import CellGroup, Step
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.results import ArmKind
from warmstart.formats import duration, quantity
from warmstart.runs.facts import CellName
from warmstart.training.length import Clock

Job = tuple[CellGroup, Step]
ORDER: tuple[ArmKind, ...] = ("baseline", "warm", "frozen", "self", "cold")


@dataclass
class Schedule:
    """Which jobs of a comparison are trained, and in which order."""

    config: CompareConfig
    clock: Clock
    groups: Sequence[CellGroup]
    paces: Mapping[str, ArmPace] = field(default_factory=dict)  # by arm; empty: nothing changes
    dropped: frozenset[CellName] = frozenset()
    final_s: float = 0.0  # for the model to keep, after all cells
    _finished: set[tuple[object, Step]] = field(default_factory=set)
    _begun_s: dict[tuple[object, Step], float] = field(default_factory=dict)
    _actual_s: dict[str, float] = field(default_factory=dict)  # by arm, of finished jobs
    _predicted_s: dict[str, float] = field(default_factory=dict)
    _has_warned: bool = False

    def __post_init__(self) -> None:
        arms = {group.arm.name: group.arm for group in self.groups}
        self._kinds = {name: arm.describe().kind for name, arm in arms.items()}

    def order(self) -> list[CellGroup]:
        """Return the groups, under a limit of time those first that are dropped last."""
        if self.config.minutes is None:
            return list(self.groups)

        def place(group: CellGroup) -> tuple[bool, int, int]:
            kind = self._kinds[group.arm.name]
            return kind == "cold", group.labels, ORDER.index(kind)

        return sorted(self.groups, key=place)

    def is_dropped(self, group: CellGroup, step: Step) -> bool:
        """Tell whether a job is not to be trained, as things stand."""
        if step != "tuning":
            return _name(group, step) in self.dropped
        return all(_name(group, seed) in self.dropped for seed in self.config.seeds)

    def begin(self, group: CellGroup, step: Step) -> None:
        """Note that a job begins."""
        self._begun_s[group.stem, step] = self.clock.spent_s

    def finish(self, group: CellGroup, step: Step) -> None:
        """Note that a job is finished, and plan again; it may have been finished before."""
        self._finished.add((group.stem, step))
        begun_s = self._begun_s.pop((group.stem, step), None)
        if begun_s is None or not self.paces:
            return
        arm = group.arm.name
        predicted_s = self.paces[arm].job_s(group, step) + self._counting_s(arm)
        self._actual_s[arm] = self._actual_s.get(arm, 0.0) + self.clock.spent_s - begun_s
        self._predicted_s[arm] = self._predicted_s.get(arm, 0.0) + predicted_s
        self.plan()

    def plan(self) -> None:
        """Drop as many cells as must be dropped to end in time, and no others."""
        if self.clock.minutes is None or not self.paces:
            return
        left_s = 60 * self.clock.minutes - REPORT_S - self.clock.spent_s
        self.dropped, taken = frozenset(), list[frozenset[CellName]]()
        for cells in self._cells_to_drop():
            if self.remaining_s() <= left_s:
                break
            taken.append(cells)
            self.dropped |= cells
        if (remaining_s := self.remaining_s()) > left_s and not self._has_warned:
            self._has_warned = True
            progress.say(
                f"--minutes {self.clock.minutes:g} may not be kept: this machine is slower than it "
                f"was at first, and the rest takes about {duration(remaining_s)} if it stays so"
            )
        self._bring_back(taken, left_s)

    def _bring_back(self, taken: Sequence[frozenset[CellName]], left_s: float) -> None:
        """Train what still fits of the cells taken out, the last first: a size frees much time."""
        kept_out = list(taken)
        for cells in reversed(taken):
            others = [each for each in kept_out if each is not cells]
            before, self.dropped = self.dropped, frozenset().union(*others)
            if self.remaining_s() <= left_s:
                kept_out = others
            else:
                self.dropped = before

    def _cells_to_drop(self) -> Iterator[frozenset[CellName]]:
        """Yield cells that are dropped together, the most dispensable first."""
        unfinished = {
            _name(group, seed)
            for group in self.groups
            for seed in self.config.seeds
            if (group.stem, seed) not in self._finished
        }
        sizes = sorted({group.labels for group in self.groups}, reverse=True)
        cold = {name for name in unfinished if self._kinds[name.arm] == "cold"}
        for size in sizes:
            yield frozenset(name for name in cold if name.labels == size)
        for seed in reversed(self.config.seeds[MIN_SEEDS:]):
            yield frozenset(name for name in unfinished if name.seed == seed)
        for size in sizes[:-1]:  # with its finished cells: a size has all arms, or is left out
            yield frozenset(
                _name(group, seed)
                for group in self.groups
                if group.labels == size
                for seed in self.config.seeds
            )

    def remaining_s(self) -> float:
        """Return how long the jobs take that are neither finished nor dropped, and what follows."""
        jobs = [(group, self._job_s(group, step)) for group, step in self.jobs()]
        arms = {group.arm.name for group, _ in jobs}
        cells_s = wall_s(self.config, jobs, sum(map(self._counting_s, arms)))
        return cells_s + self._rate(None) * self.final_s

    def arm_s(self, arm: str) -> float:
        """Return the same of one arm, one job after the other."""
        own = [job for job in self.jobs() if job[0].arm.name == arm]
        return sum(self._job_s(*job) for job in own) + self._counting_s(arm)

    def jobs(self) -> list[Job]:
        """Return the jobs that are neither finished nor dropped."""
        return [
            (group, step)
            for group in self.groups
            for step in steps_of(self.config)
            if (group.stem, step) not in self._finished and not self.is_dropped(group, step)
        ]

    def _job_s(self, group: CellGroup, step: Step) -> float:
        return self._rate(group.arm.name) * self.paces[group.arm.name].job_s(group, step)

    def _counting_s(self, arm: str) -> float:
        return 0.0 if arm in self._actual_s else self.paces[arm].counting_s

    def _rate(self, arm: str | None) -> float:
        """Return how much longer jobs of an arm take than predicted; None or a new arm: of all."""
        arms = [arm] if arm and self._predicted_s.get(arm) else list(self._predicted_s)
        predicted_s = sum(self._predicted_s[name] for name in arms)
        return sum(self._actual_s[name] for name in arms) / predicted_s if predicted_s else 1.0

    def describe(self, asked: CompareConfig) -> str | None:
        """Say what --minutes left out; None: nothing."""
        parts = []
        if self.config.trials < asked.trials:
            num = asked.trials - self.config.trials
            parts.append(f"{num} of {quantity(asked.trials, 'trial')} of each Transformer")
        names = [_name(group, seed) for group in self.groups for seed in self.config.seeds]
        sizes = {name.labels for name in names} - {n.labels for n in names if n not in self.dropped}
        parts += [f"all arms with {quantity(size, 'label')}" for size in sorted(sizes)]
        seeds: dict[tuple[str, int], set[int]] = defaultdict(set)
        for name in self.dropped:
            if name.labels not in sizes:
                seeds[name.arm, name.labels].add(name.seed)
        arms: dict[tuple[int, tuple[int, ...]], list[str]] = defaultdict(list)
        for (arm, labels), of_arm in sorted(seeds.items()):
            arms[labels, tuple(sorted(of_arm))].append(arm)
        for (labels, dropped), of_seeds in sorted(arms.items()):
            which = f"seed{'s' * (len(dropped) > 1)} {', '.join(map(str, dropped))} of "
            which = "" if len(dropped) == len(self.config.seeds) else which
            parts.append(f"{which}{', '.join(of_seeds)} with {quantity(labels, 'label')}")
        return f"--minutes {asked.minutes:g} left out {'; '.join(parts)}" if parts else None


def _name(group: CellGroup, seed: int) -> CellName:
    return CellName(arm=group.arm.name, labels=group.labels, seed=seed)
