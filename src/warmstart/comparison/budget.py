"""Fit a comparison into minutes: a timed sample of its arms decides how much of it is trained.

This is decided before the first cell, so that no cell depends on the clock.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from warmstart import progress
from warmstart.comparison.arms import (
    BaselineArm,
    ExperimentArm,
    FrozenArm,
    Splits,
    TransformerArm,
)
from warmstart.comparison.commands import BASELINE_ARMS, CompareConfig
from warmstart.comparison.plan import ExperimentPlan, subset_sizes
from warmstart.data.splits import nested_rows
from warmstart.errors import WarmstartError
from warmstart.formats import duration, quantity
from warmstart.runs.facts import Limit
from warmstart.runtime import num_cores
from warmstart.training.defaults import MAX_EPOCHS, epochs_between_validations, finetuning_epochs
from warmstart.training.length import TIMED_S, TIMED_SHARE, Clock, measure

SAMPLE_BATCHES = 32  # of training texts, from which batches of similar length are made
SAMPLE_VALID = 128  # texts
REPORT_S = 10.0  # for overlaps, figures and the page
KEPT_EPOCHS = 0.75  # least share of the epochs that is left, to save a trial or a seed
MIN_SEEDS, MIN_EPOCHS = 3, 2  # with fewer seeds the intervals say little
TRAININGS = 1.5  # per cell, if halves of the validation texts may choose different settings


@dataclass(frozen=True, kw_only=True)
class ArmPace:
    """Measured seconds of the parts of one arm's cells."""

    step_s: float = 0.0
    validation_s: float = 0.0  # of one validation
    counting_s: float = 0.0  # to count the n-grams of a text, once for all cells
    text_s: float = 0.0  # to read a training text before the first epoch
    reading_s: float = 0.0  # to read the validation texts before the first epoch
    scoring_s: float = 0.0  # to label the test texts at the end
    is_tuned: bool = True  # False: it chooses its setting inside the training labels
    is_random: bool = True  # False: with all labels, every seed has the same model

    def cells_s(self, num_train: int, config: CompareConfig, is_all: bool = False) -> float:
        """Return the time of the cells of one subset, and of their tuning."""
        num_epochs = finetuning_epochs(num_train, config)
        num_validations = -(-num_epochs // epochs_between_validations(num_epochs, config))
        training_s = (
            num_train * self.text_s
            + self.reading_s
            + num_epochs * -(-num_train // config.batch_size) * self.step_s
            + num_validations * self.validation_s
        )
        num_tried = config.trials if config.trials > 1 and self.is_tuned else 0
        per_seed = 1 if config.test or config.folds or not num_tried else TRAININGS
        num_seeds = len(config.seeds)
        if is_all and not self.is_random:
            return (config.folds or 1) * (training_s + self.scoring_s)
        fold_s = (num_tried + per_seed * num_seeds) * training_s + num_seeds * self.scoring_s
        return (config.folds or 1) * fold_s


def limit_to_minutes(config: CompareConfig, plan: ExperimentPlan, clock: Clock) -> Limit:
    """Return how much of a comparison fits into --minutes; without, say how long it takes."""
    seconds = TIMED_S if clock.minutes is None else TIMED_SHARE * 60 * clock.minutes
    return choose_limit(config, plan, measure_arms(plan, config, seconds), clock)


def choose_limit(
    config: CompareConfig, plan: ExperimentPlan, paces: Sequence[ArmPace], clock: Clock
) -> Limit:
    """Return how much of a comparison fits into the time of the clock, given each arm's pace."""
    taken = config
    if clock.minutes is None:
        total = duration(total_seconds(config, plan, paces))
        progress.say(f"the comparison takes about {total} on this machine")
    else:
        spent_s = clock.spent_s + REPORT_S
        taken = largest_within(60 * clock.minutes - spent_s, config, plan, paces)
        if (total_s := total_seconds(taken, plan, paces) + spent_s) > 60 * clock.minutes:
            raise WarmstartError(
                f"--minutes {clock.minutes:g} is too short: the smallest label subset takes "
                f"{total_s / 60:.1f} minutes with one trial, {len(taken.seeds)} seeds and "
                f"{_most_epochs(taken)} epochs"
            )
    return Limit(
        trials=taken.trials,
        seeds=taken.seeds,
        most_epochs=taken.most_epochs,
        labels=taken.labels,
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
    """Return the settings and plan of what is trained: the whole comparison, or what fits."""
    taken = replace(config, **asdict(limit))
    if taken == config:
        return config, plan
    if config.minutes is None or not _is_part(taken, config):
        raise WarmstartError(
            f"{config.out}/config.json: 'within_minutes' does not fit 'settings': one of them was "
            "changed"
        )
    left_out = describe_limit(config, taken)
    first, then = ("seeds", "trials") if config.folds else ("trials", "seeds")
    progress.say(
        f"{left_out}; fewer {first} are taken first, then {then}, epochs and label subsets"
    )
    arms = [
        replace(planned, arm=replace(planned.arm, tuning=taken))
        if isinstance(planned.arm, TransformerArm)
        else planned
        for planned in plan.arms
    ]
    return taken, replace(plan, arms=arms, left_out=left_out)


def _is_part(taken: CompareConfig, asked: CompareConfig) -> bool:
    is_shorter = taken.trials <= asked.trials and _most_epochs(taken) <= _most_epochs(asked)
    return (
        is_shorter
        and set(taken.seeds) <= set(asked.seeds)
        and set(taken.labels) <= set(asked.labels)
    )


def largest_within(
    seconds: float, config: CompareConfig, plan: ExperimentPlan, paces: Sequence[ArmPace]
) -> CompareConfig:
    """Return the largest comparison that takes at most `seconds`; the smallest if none does."""
    for smaller in _smaller_comparisons(config, plan):
        if total_seconds(smaller, plan, paces) <= seconds:
            break
    return smaller


def describe_limit(asked: CompareConfig, taken: CompareConfig) -> str:
    """Say what a budget left out."""
    parts = [
        f"{taken.trials} of {quantity(asked.trials, 'trial')}",
        f"{len(taken.seeds)} of {quantity(len(asked.seeds), 'seed')}",
        f"at most {_most_epochs(taken)} of {quantity(_most_epochs(asked), 'epoch')}",
        f"{len(taken.labels)} of {quantity(len(asked.labels), 'label subset')}",
    ]
    return f"--minutes {asked.minutes:g}: {', '.join(parts)}"


def _smaller_comparisons(config: CompareConfig, plan: ExperimentPlan) -> Iterator[CompareConfig]:
    """Yield the comparison and smaller ones: fewer trials, then seeds, epochs, label subsets.

    Folds repeat a comparison as seeds do: with them, seeds are left out before trials.
    """
    most = _most_epochs(config)
    for smaller in _fewer_trials_and_seeds(config):
        for epochs in range(most, math.ceil(KEPT_EPOCHS * most) - 1, -1):
            yield replace(smaller, most_epochs=epochs)
    least = min(MIN_EPOCHS, most)
    for epochs in range(most, least - 1, -1):
        yield replace(smaller, most_epochs=epochs)
    sizes = sorted(config.labels, key=lambda size: _subsets((size,), config, plan))
    for num in range(len(sizes) - 1, 0, -1):  # the largest subsets cost most
        yield replace(smaller, most_epochs=least, labels=tuple(sizes[:num]))


def _most_epochs(config: CompareConfig) -> int:
    return config.most_epochs or config.epochs or MAX_EPOCHS


def _fewer_trials_and_seeds(config: CompareConfig) -> Iterator[CompareConfig]:
    first, then = _fewer_trials, _fewer_seeds
    if config.folds:
        first, then = then, first
    for smaller in first(config):
        yield smaller
    yield from then(smaller)


def _fewer_trials(config: CompareConfig) -> Iterator[CompareConfig]:
    for num in range(config.trials, 0, -1):
        yield replace(config, trials=num)


def _fewer_seeds(config: CompareConfig) -> Iterator[CompareConfig]:
    for num in range(len(config.seeds), min(MIN_SEEDS, len(config.seeds)) - 1, -1):
        yield replace(config, seeds=config.seeds[:num])


def _subsets(labels: Sequence[str], config: CompareConfig, plan: ExperimentPlan) -> tuple[int, ...]:
    sized = replace(config, labels=tuple(labels))
    return subset_sizes(sized, plan.texts)


def total_seconds(config: CompareConfig, plan: ExperimentPlan, paces: Sequence[ArmPace]) -> float:
    """Return the time of all cells and tunings, given each arm's pace."""
    device_s = other_s = counting_s = 0.0
    for planned, pace in zip(plan.arms, paces, strict=True):
        arm_counting_s, cells_s = _arm_parts(config, plan, pace)
        counting_s += arm_counting_s
        if planned.arm.uses_device:
            device_s += cells_s
        else:
            other_s += cells_s
    if is_beside(config):
        return max(device_s, counting_s + other_s)
    return counting_s + (device_s + other_s) / num_at_once(config)  # each process counts n-grams


def arm_seconds(config: CompareConfig, plan: ExperimentPlan, pace: ArmPace) -> float:
    """Return the time of an arm's cells and tunings, one after the other."""
    return sum(_arm_parts(config, plan, pace))


def _arm_parts(config: CompareConfig, plan: ExperimentPlan, pace: ArmPace) -> tuple[float, float]:
    """Return the time to count an arm's n-grams, and that of its cells and tunings."""
    subsets = _subsets(config.labels, config, plan)
    pool = plan.texts.pool
    sizes = [labels if config.refits else pool.divide(labels)[0] for labels in subsets]
    all_texts, held_out = plan.texts.data, plan.texts.held_out
    num_counted = min(
        sum(map(len, all_texts.values())),
        (len(config.seeds) + 1) * sizes[-1] + sum(len(all_texts[name]) for name in held_out),
    )
    cells_s = sum(
        pace.cells_s(size, config, labels == len(pool))
        for size, labels in zip(sizes, subsets, strict=True)
    )
    return num_counted * pace.counting_s, cells_s


def measure_arms(plan: ExperimentPlan, config: CompareConfig, seconds: float) -> list[ArmPace]:
    """Return the pace of every arm; arms that do the same work are timed once."""
    measured: dict[object, ArmPace] = {}
    paces = []
    for planned in plan.arms:
        key = _same_work(planned.arm)
        if key not in measured:
            measured[key] = _measure(
                planned.arm, planned.parts[0], config, seconds / len(plan.arms)
            )
        paces.append(measured[key])
    return paces


def _same_work(arm: ExperimentArm) -> object:
    if isinstance(arm, TransformerArm):
        return arm.source.path, arm.kind == "frozen"
    return arm.name


def _measure(arm: ExperimentArm, splits: Splits, config: CompareConfig, seconds: float) -> ArmPace:
    """Time one arm on a sample of the texts."""
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
            is_tuned=False,
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
            is_tuned=len(arm.settings(2)) > 1,
            is_random=False,
        )
    assert isinstance(arm, TransformerArm)
    trainer = arm.trainer(sample, seed, value)
    pace = measure(trainer, seconds, None if config.minutes else trainer.settings.steps)
    text_s = pace.validation_s / num_sampled
    return ArmPace(step_s=pace.step_s, scoring_s=text_s * num_test, validation_s=text_s * num_valid)
