"""Train the missing cells of a comparison on its workers, and join the folds."""

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart import progress
from warmstart.comparison.cells import CellGroup, ModelKeeper, Result, Step
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan, plan_arms
from warmstart.comparison.results import Cell, TunedArm
from warmstart.comparison.schedule import Job, Schedule
from warmstart.comparison.workers import Outcome, Workers
from warmstart.data.splits import Fold
from warmstart.errors import StoppedError, WarmstartError
from warmstart.formats import quantity
from warmstart.runs.folder import RunFolder
from warmstart.signals import Interrupt, listen
from warmstart.tasks.fitting import Epoch

MOST_LOSSES = 3  # of one job's workers, while no other job finishes
POLL_S = 0.1


def train_cells(
    config: CompareConfig,
    run: RunFolder,
    plan: ExperimentPlan,
    schedule: Schedule,
    workers: Workers,
) -> tuple[list[Cell], list[TunedArm]]:
    """Tune every arm at every subset and train every cell, except those that are finished."""
    groups = schedule.groups
    total = sum(group.num_tried + len(config.seeds) for group in groups)
    tuned: dict[Path, TunedArm] = {}
    cells: dict[tuple[Path, int], Cell] = {}
    with listen() as interrupt, progress.bar("comparing", total, "model") as bar:
        try:
            for group, result in _results(schedule, config.seeds, workers, interrupt):
                if isinstance(result, TunedArm):
                    tuned[group.stem] = result
                    bar.advance(group.num_tried, f"{group.title}, tuned")
                else:
                    cells[group.stem, result.seed] = result
                    bar.advance(1, f"{group.title}, seed {result.seed}")
        except StoppedError as stop:
            message = f"stopped; finished cells are in {run.path}: continue with --resume"
            raise StoppedError(message, stop.signal_number) from None
    in_order = [
        cells[group.stem, seed]
        for group in groups
        for seed in config.seeds
        if not schedule.is_dropped(group, seed)
    ]
    folds = plan.texts.folds
    joined = join_folds(in_order, folds) if folds else in_order
    kept = [group for group in groups if not schedule.is_dropped(group, "tuning")]
    return joined, [tuned[group.stem] for group in kept]


def _results(
    schedule: Schedule, seeds: Sequence[int], workers: Workers, interrupt: Interrupt
) -> Iterator[tuple[CellGroup, Result]]:
    """Yield every tuning and every cell once it is finished; cells wait for their tuning."""
    groups = schedule.order()
    finished = {group.stem: group.read_finished(seeds) for group in groups}
    ready: deque[Job] = deque()
    for group in groups:
        for step, result in finished[group.stem].items():
            schedule.finish(group, step)
            yield group, result
        ready += _ready_jobs(group, finished[group.stem], seeds)
    schedule.plan()
    pending: dict[Future[Outcome], Job] = {}
    losses: Counter[object] = Counter()
    while pending or not all(schedule.is_dropped(*job) for job in ready):
        for _ in range(len(ready)):
            group, step = ready.popleft()
            has_room = workers.has_room(group, [other for other, _ in pending.values()])
            if has_room and not schedule.is_dropped(group, step):
                schedule.begin(group, step)
                pending[workers.submit(group, step, finished[group.stem].get("tuning"))] = (
                    group,
                    step,
                )
            else:
                ready.append((group, step))  # every waiting job is moved, so that their order stays
        interrupt.obey()
        for future in wait(pending, POLL_S, FIRST_COMPLETED).done:
            group, step = pending.pop(future)
            if isinstance(future.exception(), workers.losses):
                losses[group.stem, step] += 1
                _check_losses(losses[group.stem, step], group, future.exception())
                ready.appendleft((group, step))
                continue
            finished[group.stem][step] = future.result().report()
            schedule.finish(group, step)
            losses.clear()
            yield group, finished[group.stem][step]
            if step == "tuning":
                ready.extendleft(reversed(_ready_jobs(group, finished[group.stem], seeds)))


def _ready_jobs(group: CellGroup, finished: Container[Step], seeds: Sequence[int]) -> list[Job]:
    """Return the jobs of a group that can start: its tuning, or its missing cells after it."""
    if "tuning" not in finished:
        return [(group, "tuning")]
    return [(group, seed) for seed in seeds if seed not in finished]


def _check_losses(num: int, group: CellGroup, fault: BaseException | None) -> None:
    if num == MOST_LOSSES:
        raise WarmstartError(
            f"{group.title}: its process was lost {num} times in a row ({type(fault).__name__}), "
            "perhaps for lack of memory: take fewer --processes or --threads, then --resume"
        )


def join_folds(cells: Sequence[Cell], folds: Sequence[Fold]) -> list[Cell]:
    """Join the cells of all folds into one cell for each arm, subset and seed."""
    of_folds: dict[tuple[str, int, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        of_folds[cell.arm, cell.labels, cell.seed].append(cell)
    return [_join(group, folds) for group in of_folds.values()]


def _join(cells: Sequence[Cell], folds: Sequence[Fold]) -> Cell:
    predicted = _in_order([cell.predictions["test"] for cell in cells], folds)
    has_margins = all(cell.margins for cell in cells)
    return replace(
        cells[0],
        setting=" or ".join(dict.fromkeys(cell.setting for cell in cells)),
        epochs=tuple(map(_mean, zip(*(cell.epochs for cell in cells), strict=False))),
        elapsed_s=float(np.mean([cell.elapsed_s for cell in cells])),
        predictions={"cross-validation": predicted},
        margins=_in_order([cell.margins for cell in cells], folds) if has_margins else (),
    )


def _in_order(by_fold: Sequence[Sequence[Any]], folds: Sequence[Fold]) -> tuple[Any, ...]:
    """Return what folds say of their texts in the order of all texts."""
    by_row = {
        row: value
        for values, fold in zip(by_fold, folds, strict=True)
        for row, value in zip(fold.test, values, strict=True)
    }
    return tuple(by_row[row] for row in range(len(by_row)))


def _mean(epochs: Sequence[Epoch]) -> Epoch:
    """Return the mean over folds of what was measured after one epoch."""

    def mean(name: str) -> Any:
        values = [getattr(epoch, name) for epoch in epochs]
        return None if None in values else float(np.mean(values))

    return Epoch(
        epoch=epochs[0].epoch,
        train_loss=mean("train_loss"),
        valid_loss=mean("valid_loss"),
        valid_accuracy=mean("valid_accuracy"),
        valid_f1=mean("valid_f1"),
        elapsed_s=mean("elapsed_s"),
    )


def train_final_model(
    config: CompareConfig,
    run: RunFolder,
    plan: ExperimentPlan,
    tuned: Sequence[TunedArm],
    scores: dict[str, float],
) -> None:
    """Train an arm once more with the setting that was chosen most often, and keep the model.

    A model that is trained on all texts has none to be scored on: it gets the scores of the models
    that were trained on fewer.
    """
    name, labels = tuned[0].arm, plan.texts.final_labels(tuned[0].labels)
    is_refitted, stem = config.keep_epoch == "last", "all-folds" if config.folds else "all-labels"
    progress.say(f"training {name} on {quantity(labels, 'label')}, to keep the model")
    config = replace(config, folds=None)
    borrowed = (scores, plan.texts.scored_labels(tuned[0].labels)) if is_refitted else ()
    with progress.silence():
        texts = plan.texts.in_one_part(is_refitted)
        plan = plan_arms(config, texts, plan.sources, plan.spaces)
    planned = next(planned for planned in plan.arms if planned.arm.name == name)
    # A model that is trained on all texts has none left to be calibrated by.
    temperatures = [fold.temperature for fold in tuned]
    temperature = float(np.exp(np.mean(np.log(temperatures)))) if is_refitted else None
    group = CellGroup(
        arm=planned.arm,
        splits=replace(planned.parts[0], temperature=temperature),
        labels=labels,
        pool=plan.texts.pool,
        config=config,
        stem=run.cells / stem,
        keeper=ModelKeeper(config, run, plan, labels, *borrowed),
        fold=None,
    )
    seed = config.seeds[0]
    if not group.file(seed).exists():
        ((value, _),) = Counter(value for each in tuned for value in each.values).most_common(1)
        group.train(replace(tuned[0], labels=labels, values=(value, value)), seed)
