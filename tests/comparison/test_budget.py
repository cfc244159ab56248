"""A comparison within minutes: what is left out first, and that the rest is trained as asked."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command_line import MACHINE, World, read, run, succeed
from warmstart.comparison.budget import ArmPace, choose_trials, total_s
from warmstart.comparison.cells import CellGroup, cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan, plan_experiment
from warmstart.comparison.schedule import Schedule
from warmstart.comparison.texts import subset_sizes
from warmstart.errors import WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.training.length import Clock, Pace
from warmstart.training.trainer import Trainer

COMPARE = (
    "compare --train {train} --valid {valid} --from {base} -o {out} --labels 16,all "
    f"--epochs 8 --seeds 0,1,2,3 --trials 3 {MACHINE}"
)
ARMS = {"arms": ["warm", "frozen", "cold", "tfidf"]}
PACES = {arm: ArmPace(step_s=1.0) for arm in ("warm", "frozen", "cold")} | {"tf-idf": ArmPace()}
REPORT_S = 10  # kept for the report


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell that every step takes a second."""

    def measure(trainer: Trainer, seconds: float, steps: int | None) -> Pace:
        return Pace(step_s=1.0)

    monkeypatch.setattr("warmstart.comparison.budget.measure", measure)


@dataclass(frozen=True)
class HandClock(Clock):
    """A clock that is set by hand."""

    hand: list[float] = field(default_factory=lambda: [0.0])

    @property
    def spent_s(self) -> float:
        return self.hand[0]


def clock_with(seconds: float) -> HandClock:
    """Return a clock with so many seconds for the cells."""
    return HandClock((seconds + REPORT_S) / 60 + 1e-9)


@pytest.fixture
def planned(world: World, base: Path) -> tuple[CompareConfig, ExperimentPlan]:
    files = {name: str(getattr(world, name)) for name in ("train", "valid", "test")}
    values = {**files, "from": [str(base)], "out": "unused", "labels": ["all", "16"], "epochs": 8}
    values |= ARMS
    config = CompareConfig.from_values({**values, "minutes": 1.0})
    return config, plan_experiment(config)


def groups_of(config: CompareConfig, plan: ExperimentPlan) -> tuple[CellGroup, ...]:
    sizes = subset_sizes(config, plan.texts)
    return tuple(cell_groups(config, RunFolder(config.out), plan, sizes))


def one_trial(planned: tuple[CompareConfig, ExperimentPlan], seconds: float) -> Schedule:
    config = replace(planned[0], trials=1)
    schedule = Schedule(config, clock_with(seconds), groups_of(config, planned[1]), PACES)
    schedule.plan()
    return schedule


def _limit(folder: Path) -> Any:
    return read(folder / "config.json")["within_minutes"]


# 8 epochs of 3 steps with 48 texts, of one step with 16; 3 arms, 5 seeds; tf-idf costs nothing.
@pytest.mark.parametrize(
    ("seconds", "left_out"),
    [
        (480, None),
        (479, "cold with 48 labels"),
        (359, "cold with 16 labels; cold with 48 labels"),
        (319, "seed 4 of cold, frozen, tf-idf, warm with 16 labels; cold with 48 labels; "),
        (255, "seeds 3, 4 of cold, frozen, tf-idf, warm with 16 labels; cold with 48 labels; "),
        (191, "all arms with 48 labels"),  # without which there is time for cold and all seeds
        (119, "all arms with 48 labels; cold with 16 labels"),
        (79, "all arms with 48 labels; cold with 16 labels; seed 4 of frozen, tf-idf, warm"),
        (48, "all arms with 48 labels; cold with 16 labels; seeds 3, 4 of frozen, tf-idf, warm"),
    ],
)
def test_cold_is_dropped_first_then_seeds_then_sizes(
    seconds: float, left_out: str | None, planned: tuple[CompareConfig, ExperimentPlan]
) -> None:
    schedule = one_trial(planned, seconds)
    sentence = schedule.describe(replace(planned[0], trials=1))
    if left_out is None:
        assert sentence is None  # less was trained only where it was
    else:
        assert sentence is not None
        assert sentence.startswith("--minutes 1 left out ")
        assert sentence.removeprefix("--minutes 1 left out ").startswith(left_out)
    for group in schedule.groups:
        if group.arm.name == "cold" and "cold with 16 labels" in (left_out or "").split("; "):
            assert schedule.is_dropped(group, "tuning")


def test_slow_cells_drop_others_and_fast_ones_bring_them_back(
    planned: tuple[CompareConfig, ExperimentPlan],
) -> None:
    schedule = one_trial(planned, 480)
    assert isinstance(schedule.clock, HandClock)
    jobs = [(group, seed) for group in schedule.order() for seed in schedule.config.seeds]
    warm = [job for job in jobs if job[0].arm.name == "warm"]
    schedule.begin(*warm[0])
    schedule.clock.hand[0] += 3 * 8  # three times as long as predicted
    schedule.finish(*warm[0])
    dropped = schedule.dropped
    assert {name.arm for name in dropped} >= {"cold", "warm"}
    assert not schedule.is_dropped(*warm[1])
    for job in warm[1:3]:
        schedule.begin(*job)
        schedule.finish(*job)  # in no time
    assert schedule.dropped < dropped
    assert all((name.arm, name.labels) != ("warm", 16) for name in schedule.dropped)


def test_what_is_dropped_last_is_trained_first(
    planned: tuple[CompareConfig, ExperimentPlan],
) -> None:
    names = [(group.arm.name, group.labels) for group in one_trial(planned, 480).order()]
    first, last = ("tf-idf", "warm", "frozen"), ("cold",)
    assert names == [(a, n) for arms in (first, last) for n in (16, 48) for a in arms]
    config = replace(planned[0], minutes=None)
    groups = groups_of(config, planned[1])
    assert Schedule(config, Clock(None), groups).order() == list(groups)


def test_without_minutes_nothing_is_dropped(
    planned: tuple[CompareConfig, ExperimentPlan],
) -> None:
    schedule = replace(one_trial(planned, 0), clock=Clock(None), dropped=frozenset())
    schedule.plan()
    assert not schedule.dropped


# 32 s for a cell of each size; warm and cold try three settings, frozen chooses its own.
@pytest.mark.parametrize(("seconds", "trials"), [(704, 3), (703, 2), (639, 1), (48, 1)])
def test_trials_are_left_out_before_cells(
    seconds: float, trials: int, planned: tuple[CompareConfig, ExperimentPlan]
) -> None:
    assert choose_trials(*planned, PACES, clock_with(seconds)) == trials


@pytest.mark.parametrize(
    ("seconds", "advice"),
    [
        (
            47,
            "as with --trials 1 --arms warm,tfidf --seeds 0,1,2 --labels 16 --epochs 8, or give it",
        ),
        (
            20,
            "as with --trials 1 --arms warm,tfidf --seeds 0,1,2 --labels 16 --epochs 6, or give it",
        ),
        (1, "Nothing less is worth comparing: give it --minutes 1"),
    ],
)
def test_minutes_into_which_nothing_fits_say_what_to_leave_out(
    seconds: float, advice: str, planned: tuple[CompareConfig, ExperimentPlan]
) -> None:
    with pytest.raises(WarmstartError, match="is too short") as refusal:
        choose_trials(*planned, PACES, clock_with(seconds))
    assert advice in str(refusal.value)
    assert "--trials 1 --arms warm,frozen,tfidf --seeds 0,1,2 --labels 16" in str(refusal.value)


def test_options_to_paste_name_no_arm_that_was_left_out(
    planned: tuple[CompareConfig, ExperimentPlan],
) -> None:
    config = replace(planned[0], arms=("warm", "frozen", "lsa", "tfidf"))
    with pytest.raises(WarmstartError, match="is too short") as refusal:
        choose_trials(config, planned[1], PACES, clock_with(1))
    assert "lsa" not in str(refusal.value)


@pytest.mark.parametrize(("num_gpus", "seconds"), [(1, 704), (0, 704 + 700)])
def test_a_baseline_beside_a_gpu_takes_no_time_of_its_own(
    num_gpus: int,
    seconds: float,
    planned: tuple[CompareConfig, ExperimentPlan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: num_gpus)
    paces = {**PACES, "tf-idf": ArmPace(counting_s=700)}
    assert total_s(*planned, paces) == seconds


# 72 texts in 3 folds: 38 train in each, in 3 steps; refitted on all 48; 3 arms, 8 epochs. The model
# that is kept is trained on all 72, in 5 steps.
def test_folds_multiply_the_time(world: World, base: Path) -> None:
    config = CompareConfig.from_values(
        {
            "train": [str(world.train)],
            "valid": str(world.valid),
            "from": [str(base)],
            "out": "unused",
            "epochs": 8,
            "folds": 3,
            **ARMS,
        }
    )
    plan = plan_experiment(config)
    assert total_s(config, plan, PACES) == 3 * (8 + 8 + 6) * 3 * 8 + 8 * 5
    without = replace(config, save="none")
    assert total_s(without, plan, PACES) == 3 * (8 + 8 + 6) * 3 * 8
    schedule = Schedule(
        replace(config, minutes=1.0, trials=1), clock_with(700), groups_of(config, plan), PACES
    )
    schedule.plan()
    (labels,) = {name.labels for name in schedule.dropped}
    cold = [group for group in schedule.groups if group.arm.name == "cold"]
    assert [group.fold for group in cold] == [1, 2, 3]
    assert all(schedule.is_dropped(group, seed) for group in cold for seed in config.seeds)
    assert labels == 48


def test_an_arm_without_randomness_is_fitted_once_with_all_labels(
    planned: tuple[CompareConfig, ExperimentPlan],
) -> None:
    pace = ArmPace(text_s=1.0, reading_s=10.0, scoring_s=5.0, is_random=False)
    few, every = (g for g in groups_of(*planned) if g.arm.name == "tf-idf")
    assert [pace.job_s(every, step) for step in ("tuning", 0, 1)] == [0, 48 + 10 + 5, 0]
    assert [pace.job_s(few, step) for step in ("tuning", 0)] == [3 * 26, 26 + 5]


@pytest.mark.usefixtures("slow")
def test_a_limited_comparison_says_so_and_resumes(
    world: World, base: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.monotonic()
    looks = iter(range(10**6))

    def monotonic() -> float:
        """Tell that five seconds have passed since the last look."""
        return started + 5.0 * next(looks)

    places = {**vars(world), "base": base, "out": here / "limited"}
    with monkeypatch.context() as patched:
        patched.setattr("warmstart.training.length.time", SimpleNamespace(monotonic=monotonic))
        ran = succeed(f"{COMPARE} --minutes 4", **places)
    results = read(here / "limited/results.json")
    tried = {tuned["arm"]: len(tuned["trials"]) for tuned in results["tuned"]}
    assert tried == {"lsa": 1, "tf-idf": 3}  # a baseline is tuned as it would be without a limit
    assert results["left_out"].startswith(
        "--minutes 4 left out 2 of 3 trials of each Transformer; "
    )
    assert results["left_out"] in ran.err
    caveat = results["summary"]["caveats"][0]
    assert results["left_out"] in caveat
    assert caveat in (here / "limited/report.html").read_text(encoding="utf-8")
    cells = {(cell["arm"], cell["labels"], cell["seed"]) for cell in results["cells"]}
    dropped = {tuple(each.values()) for each in _limit(here / "limited")["dropped"]}
    assert dropped
    assert cells.isdisjoint(dropped)
    assert {labels for _, labels, _ in cells} == set(results["subsets"])
    assert {len(cell["epochs"]) for cell in results["cells"]} == {0, 8}  # never fewer epochs
    files = {path.name for path in (here / "limited/cells").iterdir()}
    (here / "limited/report.html").unlink()
    succeed(f"{COMPARE} --minutes 4 --resume", **places)
    assert {path.name for path in (here / "limited/cells").iterdir()} == files
    assert read(here / "limited/results.json")["left_out"] == results["left_out"]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("text", ["", "--unlabelled {texts}"], ids=["of the run", "named"])
def test_too_few_minutes_are_refused(world: World, base: Path, here: Path, text: str) -> None:
    command = f"{COMPARE} --minutes 0.2 {text}"
    ran = run(command, **vars(world), base=base, out=here / "run")
    assert ran.code == 2
    assert "--minutes 0.2 is too short" in ran.said
    assert not (here / "run").exists()


def test_without_minutes_it_says_how_long_it_takes(world: World, base: Path, here: Path) -> None:
    many, one = "--epochs 8 --seeds 0,1,2,3 --trials 3", "--epochs 1 --seeds 0 --trials 1"
    command = COMPARE.replace(many, one)
    ran = succeed(command, **vars(world), base=base, out=here / "run")
    assert "the comparison takes about " in ran.err
