"""How long a comparison takes: a timed sample of its arms, and what of it fits into minutes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from warmstart import progress
from warmstart.comparison.arms import (
    BaselineArm,
    ExperimentArm,
    FrozenArm,
    Splits,
    TransformerArm,
)
from warmstart.comparison.cells import CellGroup, Step, cell_groups
from warmstart.comparison.commands import BASELINE_ARMS, CompareConfig
from warmstart.comparison.plan import ExperimentPlan
from warmstart.comparison.self_training import SelfArm
from warmstart.comparison.texts import subset_sizes
from warmstart.data.splits import nested_rows
from warmstart.errors import WarmstartError
from warmstart.formats import duration
from warmstart.runs.facts import Limit
from warmstart.runs.folder import RunFolder
from warmstart.runtime import num_cores
from warmstart.training.defaults import epochs_between_validations, finetuning_epochs
from warmstart.training.length import Clock, measure

SAMPLE_BATCHES = 32  # of training texts, from which batches of similar length are made
SAMPLE_VALID = 128  # texts
REPORT_S = 10.0  # for overlaps, figures and the page
MIN_SEEDS = 3  # with fewer the intervals say little
TRAININGS = 1.5  # per cell, if halves of the validation texts may choose different settings


@dataclass(frozen=True, kw_only=True)
class ArmPace:
    """Measured seconds of the parts of one arm's cells."""

    step_s: float = 0.0
    validation_s: float = 0.0  # of one validation
    counting_s: float = 0.0  # to count the n-grams of all texts, once for all cells
    text_s: float = 0.0  # to read a training text before the first epoch
    reading_s: float = 0.0  # to read the validation texts before the first epoch
    scoring_s: float = 0.0  # to label the test texts at the end
    num_voters: int = 1  # models that are trained on the labels for one that is scored
    taught_s: float = 0.0  # of what else is trained and read for it, whatever the labels
    is_random: bool = True  # False: with all labels, every seed has the same model

    def job_s(self, group: CellGroup, step: Step) -> float:
        """Return the time of the tuning of a group, or of one of its cells."""
        config, pool = group.config, group.pool
        num_train = group.labels if config.refits else pool.divide(group.labels)[0]
        training_s = self.training_s(num_train, config)
        if group.labels == len(pool) and not self.is_random:
            return training_s + self.scoring_s if step == config.seeds[0] else 0.0
        if step == "tuning":
            return group.num_tried * training_s
        has_one = config.test or config.folds or group.num_tried < 2
        return (1 if has_one else TRAININGS) * training_s + self.scoring_s

    def training_s(self, num_train: int, config: CompareConfig) -> float:
        """Return the time of one training."""
        num_epochs = finetuning_epochs(num_train, config)
        num_validations = -(-num_epochs // epochs_between_validations(num_epochs, config))
        return (
            num_train * self.text_s
            + self.reading_s
            + self.num_voters * num_epochs * -(-num_train // config.batch_size) * self.step_s
            + num_validations * self.validation_s
            + self.taught_s
        )


def num_at_once(config: CompareConfig) -> int:
    """Return how many cells this machine trains at a time."""
    if config.processes is None:
        return 1
    if config.processes != "auto":
        return int(config.processes)
    return _num_gpus(config) or num_cores()


def is_beside(config: CompareConfig) -> bool:
    """Tell whether the baseline is fitted in a process beside the one that uses the GPU."""
    is_alone = num_at_once(config) == 1 and not config.ray
    has_baseline = not set(BASELINE_ARMS).isdisjoint(config.arm_names)
    return is_alone and has_baseline and _num_gpus(config) > 0


def _num_gpus(config: CompareConfig) -> int:
    return torch.cuda.device_count() if config.device != "cpu" else 0


def share_threads(config: CompareConfig) -> CompareConfig:
    """Return the settings with the threads of each cell, where several share the cores."""
    if config.threads or (num_at_once(config) == 1 and not config.ray):
        return config
    threads = 1 if config.ray else max(1, num_cores() // num_at_once(config))
    return replace(config, threads=threads)


def apply_limit(
    config: CompareConfig, plan: ExperimentPlan, limit: Limit
) -> tuple[CompareConfig, ExperimentPlan]:
    """Return the settings and the plan with as many trials as fit into the minutes."""
    is_part = limit.trials <= config.trials
    if config.minutes is None:
        is_part = limit.trials == config.trials and not limit.dropped
    if not is_part:
        raise WarmstartError(
            f"{config.out}/config.json: 'within_minutes' does not fit 'settings': one of them was "
            "changed"
        )
    taken = replace(config, trials=limit.trials)
    arms = [
        replace(planned, arm=replace(planned.arm, tuning=taken))
        if isinstance(planned.arm, TransformerArm)
        else planned
        for planned in plan.arms
    ]
    return taken, replace(plan, arms=arms)


def choose_trials(
    config: CompareConfig, plan: ExperimentPlan, paces: Mapping[str, ArmPace], clock: Clock
) -> int:
    """Return how many trials fit into --minutes; without, say how long the comparison takes.

    Refuse minutes into which nothing fits.
    """
    if clock.minutes is None:
        total = duration(total_s(config, plan, paces))
        progress.say(f"the comparison takes about {total} on this machine")
        return config.trials
    left_s = 60 * clock.minutes - clock.spent_s - REPORT_S
    for trials in range(config.trials, 0, -1):
        if total_s(replace(config, trials=trials), plan, paces) <= left_s:
            return trials
    smallest = _smallest(config, plan)
    if (needed_s := total_s(smallest, plan, paces)) > left_s:
        minutes = (needed_s + 60 * clock.minutes - left_s) / 60
        raise WarmstartError(
            f"--minutes {clock.minutes:g} is too short: the smallest comparison "
            f"({_describe(smallest)}) takes {minutes:.1f} minutes. "
            f"{_way_out(smallest, plan, paces, left_s, minutes)}"
        )
    return 1


def _smallest(config: CompareConfig, plan: ExperimentPlan) -> CompareConfig:
    """Return the smallest comparison that is still worth its name."""
    size = min(config.labels, key=lambda size: _subsets(config, plan, size))
    planned = {_option_of(planned.arm) for planned in plan.arms}
    names = tuple(arm for arm in config.arm_names if arm in planned)
    arms = tuple(arm for arm in names if arm != "cold")
    return replace(
        config,
        trials=1,
        seeds=config.seeds[:MIN_SEEDS],
        labels=(size,),
        arms=arms if len(arms) > 1 else names,
    )


def _way_out(
    config: CompareConfig,
    plan: ExperimentPlan,
    paces: Mapping[str, ArmPace],
    left_s: float,
    minutes: float,
) -> str:
    """Say what else to leave out, as options to paste, or how many minutes to give."""
    enough = f"give it --minutes {-(-minutes // 0.5) / 2:g}"
    for smaller in _even_smaller(config, plan):
        if total_s(smaller, plan, paces) <= left_s:
            return f"Leave out more, as with {_describe(smaller)}, or {enough}"
    return f"Nothing less is worth comparing: {enough}"


def _even_smaller(config: CompareConfig, plan: ExperimentPlan) -> Iterator[CompareConfig]:
    arms = tuple(arm for arm in config.arm_names if arm != "frozen")
    smaller = replace(config, arms=arms if len(arms) > 1 else config.arm_names)
    yield smaller
    usual = finetuning_epochs(subset_sizes(config, plan.texts)[-1], config)
    for epochs in range(usual - 1, 0, -1):
        yield replace(smaller, epochs=epochs)


def _describe(config: CompareConfig) -> str:
    """Write the size of a comparison as options, what is left out first in front."""
    epochs = f" --epochs {config.epochs}" if config.epochs else ""
    return (
        f"--trials {config.trials} --arms {','.join(config.arm_names)} "
        f"--seeds {','.join(map(str, config.seeds))} --labels {','.join(config.labels)}{epochs}"
    )


def _subsets(config: CompareConfig, plan: ExperimentPlan, size: str) -> tuple[int, ...]:
    return subset_sizes(replace(config, labels=(size,)), plan.texts)


def total_s(config: CompareConfig, plan: ExperimentPlan, paces: Mapping[str, ArmPace]) -> float:
    """Return how long the arms, sizes, seeds and trials of these settings take."""
    subsets = subset_sizes(config, plan.texts)
    names = {
        planned.arm.name for planned in plan.arms if _option_of(planned.arm) in config.arm_names
    }
    jobs = [
        (group, paces[group.arm.name].job_s(group, step))
        for group in cell_groups(config, RunFolder(config.out), plan, subsets)
        if group.arm.name in names
        for step in steps_of(config)
    ]
    cells_s = wall_s(config, jobs, sum(paces[name].counting_s for name in names))
    return cells_s + final_s(config, plan, {name: paces[name] for name in names})


def final_s(config: CompareConfig, plan: ExperimentPlan, paces: Mapping[str, ArmPace]) -> float:
    """Return how long the model to keep may take: that of the slowest arm, on all labels."""
    num_texts = plan.texts.final_labels(len(plan.texts.pool))
    seconds = (pace.training_s(num_texts, config) for pace in paces.values())
    return max(seconds, default=0.0) if config.retrains else 0.0


def steps_of(config: CompareConfig) -> list[Step]:
    """Return the jobs of every group: its tuning, then a cell for each seed."""
    return ["tuning", *config.seeds]


def _option_of(arm: ExperimentArm) -> str:
    """Return the name by which --arms asks for an arm."""
    return arm.baseline.arm if isinstance(arm, BaselineArm) else arm.describe().kind


def wall_s(
    config: CompareConfig, jobs: Sequence[tuple[CellGroup, float]], counting_s: float
) -> float:
    """Return how long jobs take on this machine, of which each takes so many seconds alone."""
    device_s = sum(seconds for group, seconds in jobs if group.arm.uses_device)
    other_s = sum(seconds for group, seconds in jobs if not group.arm.uses_device)
    if is_beside(config):
        return max(device_s, counting_s + other_s)
    return counting_s + (device_s + other_s) / num_at_once(config)  # each process counts n-grams


def measure_arms(config: CompareConfig, plan: ExperimentPlan, seconds: float) -> dict[str, ArmPace]:
    """Return the pace of every arm; arms that do the same work are timed once."""
    measured: dict[object, ArmPace] = {}
    num_texts = sum(map(len, plan.texts.data.values()))
    for planned in plan.arms:
        key = _same_work(planned.arm)
        if key not in measured:
            share_s = seconds / len(plan.arms)
            pace = _measure(planned.arm, planned.parts[0], config, share_s)
            measured[key] = replace(pace, counting_s=num_texts * pace.counting_s)
    return {planned.arm.name: measured[_same_work(planned.arm)] for planned in plan.arms}


def _same_work(arm: ExperimentArm) -> object:
    if isinstance(arm, TransformerArm):
        return arm.source.path, arm.kind if arm.kind in ("frozen", "self") else "trained"
    return arm.name


def _measure(arm: ExperimentArm, splits: Splits, config: CompareConfig, seconds: float) -> ArmPace:
    """Time one arm on a sample of the texts."""
    splits = splits.for_refit() if config.refits else splits
    seed, value = config.seeds[0], arm.settings(1)[0]
    rows = nested_rows(splits.train.strata, seed)[: SAMPLE_BATCHES * config.batch_size]
    num_valid = len(splits.valid)
    num_test = len(splits.test) if splits.test else 0
    num_sampled = min(SAMPLE_VALID, num_valid)
    valid = splits.valid.subset([i * num_valid // num_sampled for i in range(num_sampled)])
    sample = Splits(splits.train.subset(rows), valid, None)
    if isinstance(arm, FrozenArm):
        (first,), (second,) = (list(arm.fit(sample, [value], seed)) for _ in range(2))
        reading_s = max(first.elapsed_s - second.elapsed_s, 0.0)  # each text is read once
        return ArmPace(
            counting_s=reading_s / len(rows),
            text_s=second.elapsed_s / len(rows),
        )
    if isinstance(arm, BaselineArm):
        (model,) = arm.fit(sample, [value], seed)
        counting_s = arm.baseline.reading_s(sample.train.texts)
        started = time.monotonic()
        model.predict(sample.train)  # n-grams of these texts are counted already
        reading_s = (time.monotonic() - started) / len(rows)
        return ArmPace(
            counting_s=counting_s / len(rows),
            text_s=(model.elapsed_s - counting_s) / len(rows),
            reading_s=reading_s * num_valid,
            scoring_s=reading_s * num_test,
            is_random=False,
        )
    assert isinstance(arm, TransformerArm)
    trainer = arm.trainer(sample, seed, value)
    pace = measure(trainer, seconds, None if config.minutes else trainer.settings.steps)
    text_s = pace.validation_s / num_sampled
    trained = ArmPace(
        step_s=pace.step_s, scoring_s=text_s * num_test, validation_s=text_s * num_valid
    )
    return with_teaching(trained, arm, text_s)


def with_teaching(pace: ArmPace, arm: ExperimentArm, text_s: float) -> ArmPace:
    """Return the pace of a Transformer arm with what it trains to teach itself, if it does."""
    if not isinstance(arm, SelfArm):
        return pace
    taught_s = arm.num_taught_steps * pace.step_s + arm.num_texts_read * text_s
    return replace(pace, num_voters=arm.rules.voters, taught_s=taught_s)
