"""What `compare` would train: how many models, with which memory, in what time.

The comparison itself reads its files, plans its arms and estimates its time; a device of --on only
takes the place of its stopwatch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from warmstart import progress
from warmstart.comparison.arms import TransformerArm
from warmstart.comparison.budget import (
    ArmPace,
    apply_limit,
    choose_trials,
    final_s,
    measure_arms,
    num_at_once,
    with_teaching,
)
from warmstart.comparison.cells import cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import resolve
from warmstart.comparison.plan import ExperimentPlan, PlannedArm, plan_experiment, repays_compiling
from warmstart.comparison.schedule import Schedule
from warmstart.comparison.selection import num_tried
from warmstart.comparison.texts import subset_sizes
from warmstart.formats import quantity
from warmstart.planning.commands import PlanCompareConfig
from warmstart.planning.devices import GIB, reading_seconds, step_seconds
from warmstart.planning.job import finetuning_job, reading_job
from warmstart.planning.memory import StepMemory, step_memory
from warmstart.planning.plan import MEASURED_SHARE, PlannedMachine, choose_machine, long_time
from warmstart.report.html import Shown
from warmstart.runs.facts import Limit
from warmstart.runs.folder import RunFolder
from warmstart.tasks.task import TrainingJob
from warmstart.training.length import Clock


@dataclass(frozen=True)
class ArmCost:
    """What the models of one arm need."""

    name: str
    settings: tuple[str, ...]  # that are tried
    num_models: int  # trained, trials included
    memory: StepMemory | None  # None: no Transformer
    seconds: float | None = None  # of all its models, one after the other; None: not known


@dataclass(frozen=True)
class ComparisonPlan(Shown):
    """What a comparison needs, known before it runs."""

    schedule: Schedule  # what is trained; its settings are resolved, with the trials that fit
    experiment: ExperimentPlan
    machine: PlannedMachine

    @property
    def config(self) -> CompareConfig:
        return self.schedule.config

    @cached_property
    def subsets(self) -> tuple[int, ...]:
        """Return the sizes of the label subsets of which a cell is trained."""
        return tuple(sorted({group.labels for group, _ in self.schedule.jobs()}))

    @cached_property
    def arms(self) -> list[ArmCost]:
        """Return what each arm needs."""
        return [self._cost(number) for number in range(len(self.experiment.arms))]

    def _cost(self, number: int) -> ArmCost:
        planned, config = self.experiment.arms[number], self.config
        arm = planned.arm
        trials = config.trials if planned.trials is None else planned.trials
        settings = tuple(map(arm.describe_setting, arm.settings(trials)))
        tried = num_tried(arm, replace(config, trials=trials))
        steps = [step for group, step in self.schedule.jobs() if group.arm.name == arm.name]
        num_models = sum(tried if step == "tuning" else 1 for step in steps)
        job = arm_job(planned, config, self.machine.target.device)
        memory = step_memory(job, self.machine.target) if job else None
        seconds = None
        if self.schedule.paces and (job or not self.machine.sheet):
            seconds = self.schedule.arm_s(arm.name)
        return ArmCost(arm.name, settings, num_models, memory, seconds)

    @property
    def num_cells(self) -> int:
        """Return the number of models that are reported: each arm, subset, fold and seed."""
        return sum(step != "tuning" for _, step in self.schedule.jobs())

    @property
    def num_models(self) -> int:
        return sum(arm.num_models for arm in self.arms)

    @property
    def largest(self) -> ArmCost | None:
        """Return the arm whose models need the most memory; None: no arm is a Transformer."""
        arms = [arm for arm in self.arms if arm.memory]
        return max(arms, key=lambda arm: arm.memory.peak if arm.memory else 0, default=None)

    @property
    def peak(self) -> int:
        """Return the memory of the models that are trained at a time, in bytes."""
        largest = self.largest
        return num_at_once(self.config) * largest.memory.peak if largest and largest.memory else 0

    @property
    def fits(self) -> bool:
        return self.peak <= self.machine.usable

    @property
    def total_s(self) -> float | None:
        return self.schedule.remaining_s() if self.schedule.paces else None

    def pieces(self) -> list[str]:
        return sentences(self)


def plan_compare(config: PlanCompareConfig) -> ComparisonPlan:
    """Plan a comparison on a machine; measure its arms if it is this machine."""
    machine, asked = choose_machine(config), resolve(config)
    experiment = plan_experiment(asked)
    if machine.sheet:  # this machine's devices and cores are not those of --on
        asked, experiment = _one_at_a_time(asked, experiment)
    plan = ComparisonPlan(_schedule(asked, experiment, {}), experiment, machine)
    if machine.sheet:
        paces = {p.arm.name: _sheet_pace(p, asked, machine) for p in experiment.arms}
    elif config.measure and plan.fits:
        progress.say(f"measuring the arms for about {config.seconds:.0f} s")
        paces = measure_arms(asked, experiment, MEASURED_SHARE * config.seconds)
    else:
        return plan
    limit = Limit(trials=choose_trials(asked, experiment, paces, Clock(asked.minutes)))
    taken, experiment = apply_limit(asked, experiment, limit)
    schedule = _schedule(taken, experiment, paces)
    schedule.plan()
    experiment = replace(experiment, left_out=schedule.describe(asked))
    return ComparisonPlan(schedule, experiment, machine)


def _schedule(
    config: CompareConfig, experiment: ExperimentPlan, paces: Mapping[str, ArmPace]
) -> Schedule:
    subsets = subset_sizes(config, experiment.texts)
    groups = tuple(cell_groups(config, RunFolder(config.out), experiment, subsets))
    last_s = final_s(config, experiment, paces)
    return Schedule(config, Clock(config.minutes), groups, paces, final_s=last_s)


def _one_at_a_time(
    config: CompareConfig, experiment: ExperimentPlan
) -> tuple[CompareConfig, ExperimentPlan]:
    """Return a comparison without several processes, and notes that say so."""
    names = [name for name in ("processes", "ray") if getattr(config, name)]
    notes = [*experiment.notes, *(f"--{name} is not counted" for name in names)]
    return replace(config, processes=None, ray=None), replace(experiment, notes=notes)


def arm_job(planned: PlannedArm, config: CompareConfig, device: str) -> TrainingJob | None:
    """Return a step of an arm on texts of mean length; None: it is no Transformer."""
    arm, train = planned.arm, planned.parts[0].train
    if not isinstance(arm, TransformerArm):
        return None
    length = round(sum(map(len, train.ids)) / len(train))
    num_labels = arm.task.num_outputs(arm.labels) or 2
    job = finetuning_job(config, arm.task.name, arm.model, length, num_labels)
    if arm.kind == "frozen":
        return reading_job(job, config, device)
    return replace(job, is_compiled=device == "cuda" and repays_compiling(config))


def _sheet_pace(planned: PlannedArm, config: CompareConfig, machine: PlannedMachine) -> ArmPace:
    """Estimate the pace of an arm by the data sheet; of one that is no Transformer, none."""
    sheet, target, splits = machine.sheet, machine.target, planned.parts[0]
    job = arm_job(planned, config, target.device)
    if job is None or sheet is None:
        return ArmPace(is_random=False)
    reading = reading_job(job, config, target.device)
    text_s = reading_seconds(reading, sheet, target) / reading.rows
    num_valid, num_test = len(splits.valid), len(splits.test) if splits.test else 0
    if job.is_frozen:
        return ArmPace(text_s=text_s, reading_s=text_s * num_valid, scoring_s=text_s * num_test)
    trained = ArmPace(
        step_s=step_seconds(job, sheet, target),
        validation_s=text_s * num_valid,
        scoring_s=text_s * num_test,
    )
    return with_teaching(trained, planned.arm, text_s)


def sentences(plan: ComparisonPlan) -> list[str]:
    """Say what is trained, whether it fits, how long it takes, and what is not counted."""
    seeds, folds = quantity(len(plan.config.seeds), "seed"), plan.config.folds
    grid = f"{quantity(len(plan.arms), 'arm')} × {quantity(len(plan.subsets), 'label subset')}"
    grid += f" × {quantity(folds, 'fold')}" if folds else ""
    tuning = plan.num_models - plan.num_cells
    lines = [f"{grid} × {seeds}: {quantity(plan.num_cells, 'cell')}, and {tuning:,} models to tune"]
    if plan.experiment.left_out:
        lines.append(plan.experiment.left_out)
    return [*lines, *_fit_sentences(plan), *_time_sentences(plan), *plan.experiment.notes]


def _fit_sentences(plan: ComparisonPlan) -> list[str]:
    if plan.largest is None:
        return []
    at_once = quantity(num_at_once(plan.config), "model")
    usable = f"{plan.machine.usable / GIB:.1f} of {plan.machine.memory / GIB:.1f} GiB usable"
    verdict = "fits" if plan.fits else "does not fit"
    need = f"{plan.peak / GIB:.2f} GiB at the peak with {at_once} of {plan.largest.name} at a time"
    advice = "" if plan.fits else "; lower --micro-tokens or --processes"
    return [f"{verdict}: {need}, {usable}{advice}"]


def _time_sentences(plan: ComparisonPlan) -> list[str]:
    if plan.total_s is None:
        return ["without a measurement, the time is not known"]
    basis = "by its data sheet" if plan.machine.sheet else "as measured"
    lines = [f"{long_time(plan.total_s)} on {plan.machine.title}, {basis}, without the report"]
    unknown = [arm.name for arm in plan.arms if arm.seconds is None]
    if unknown:
        lines.append(f"{', '.join(unknown)} runs on the CPU beside it and is not counted")
    return lines
