"""Train every cell of a comparison: first what is missing, wherever it runs; then read them all."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace

import numpy as np

from warmstart import progress
from warmstart.comparison.cells import CellGroup, ModelKeeper, cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan, plan_arms
from warmstart.comparison.results import Cell, TunedArm
from warmstart.comparison.selection import FittedCell
from warmstart.comparison.workers import Outcome, Workers
from warmstart.data.splits import Fold
from warmstart.errors import StoppedError, WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.signals import Interrupt, listening
from warmstart.tasks.finetuning import Epoch

Job = tuple[CellGroup, int | None]  # a seed; None: the tuning
MOST_LOSSES = 3  # of the worker of one job, while no other job finishes
POLL_S = 0.1


@dataclass(frozen=True)
class TrainedCells:
    """Everything that a comparison trained."""

    fitted: list[FittedCell]
    tuned: list[TunedArm]

    def cell_of(self, arm: str, seed: int) -> Cell:
        """Return the cell of an arm with the most labels."""
        cells = [fitted.cell for fitted in self.fitted]
        most = max(cell.labels for cell in cells)
        return next(c for c in cells if (c.arm, c.labels, c.seed) == (arm, most, seed))

    def tuned_at(self, arm: str) -> list[TunedArm]:
        """Return the tunings of an arm with the most labels, one for each fold."""
        most = max(tuned.labels for tuned in self.tuned)
        return [tuned for tuned in self.tuned if (tuned.arm, tuned.labels) == (arm, most)]


def train_cells(
    config: CompareConfig,
    run: RunFolder,
    plan: ExperimentPlan,
    subsets: Sequence[int],
    workers: Workers,
) -> TrainedCells:
    """Tune every arm at every subset and train every cell, except those that are finished."""
    groups = list(cell_groups(config, run, plan, subsets))
    num_tried = config.trials if config.trials > 1 else 0
    total = len(groups) * (num_tried + len(config.seeds))
    with listening() as interrupt, progress.bar("comparing", total, "model") as bar:
        try:
            for group, seed in _finished_jobs(groups, config.seeds, workers, interrupt):
                if seed is None:
                    bar.advance(num_tried, f"{group.title}, tuned")
                else:
                    bar.advance(1, f"{group.title}, seed {seed}")
        except StoppedError as stop:
            message = f"stopped; finished cells are in {run.path}: continue with --resume"
            raise StoppedError(message, stop.signal_number) from None
    tuned = [group.tuned() for group in groups]
    fitted = [group.cell(seed) for group in groups for seed in config.seeds]
    folds = plan.texts.folds
    return TrainedCells(join_folds(fitted, folds) if folds else fitted, tuned)


def _finished_jobs(
    groups: Sequence[CellGroup], seeds: Sequence[int], workers: Workers, interrupt: Interrupt
) -> Iterator[Job]:
    """Yield every job once it is finished; the cells of a group wait for its tuning."""
    missing = {group.stem: group.missing([None, *seeds]) for group in groups}
    yield from ((g, seed) for g in groups for seed in (None, *seeds) if seed not in missing[g.stem])
    ready: deque[Job] = deque((g, seed) for g in groups for seed in _ready(missing[g.stem]))
    pending: dict[Future[Outcome], Job] = {}
    losses: Counter[object] = Counter()
    while ready or pending:
        for _ in range(len(ready)):
            job = ready.popleft()
            if workers.has_room(job[0], [group for group, _ in pending.values()]):
                pending[workers.submit(*job)] = job
            else:
                ready.append(job)  # all that stay are moved, so that their order stays, too
        interrupt.obey()
        for future in wait(pending, POLL_S, FIRST_COMPLETED).done:
            group, seed = pending.pop(future)
            if isinstance(future.exception(), workers.losses):
                losses[group.stem, seed] += 1
                _check_losses(losses[group.stem, seed], group, future.exception())
                ready.appendleft((group, seed))
                continue
            future.result().report()
            losses.clear()
            if seed is None:
                cells = [cell for cell in missing[group.stem] if cell is not None]
                ready.extendleft((group, cell) for cell in reversed(cells))
            yield group, seed


def _ready(missing: Sequence[int | None]) -> Sequence[int | None]:
    """Return which jobs of a group can start: where its tuning is missing, only this."""
    return [None] if None in missing else missing


def _check_losses(num: int, group: CellGroup, fault: BaseException | None) -> None:
    if num == MOST_LOSSES:
        raise WarmstartError(
            f"{group.title}: its process was lost {num} times in a row ({type(fault).__name__}), "
            "perhaps for lack of memory: take fewer --processes or --threads, then --resume"
        )


def join_folds(fitted: Sequence[FittedCell], folds: Sequence[Fold]) -> list[FittedCell]:
    """Return one cell for each arm, subset and seed, of those of every fold in order."""
    cells: dict[tuple[str, int, int], list[FittedCell]] = defaultdict(list)
    for result in fitted:
        cell = result.cell
        cells[cell.arm, cell.labels, cell.seed].append(result)
    return [_join(of_folds, folds) for of_folds in cells.values()]


def _join(fitted: Sequence[FittedCell], folds: Sequence[Fold]) -> FittedCell:
    cells = [result.cell for result in fitted]
    predicted = np.zeros(sum(len(fold.test) for fold in folds), np.int64)
    for cell, fold in zip(cells, folds, strict=True):
        predicted[fold.test] = cell.predictions["test"]
    joined = replace(
        cells[0],
        setting=" or ".join(dict.fromkeys(cell.setting for cell in cells)),
        epochs=tuple(map(_mean, zip(*(cell.epochs for cell in cells), strict=False))),
        elapsed_s=float(np.mean([cell.elapsed_s for cell in cells])),
        predictions={"cross-validation": tuple(predicted.tolist())},
    )
    return FittedCell(joined)


def _mean(epochs: Sequence[Epoch]) -> Epoch:
    """Return the mean over folds of what was measured after one epoch."""
    return Epoch(
        epoch=epochs[0].epoch,
        train_loss=float(np.mean([epoch.train_loss for epoch in epochs])),
        valid_loss=float(np.mean([epoch.valid_loss for epoch in epochs])),
        valid_accuracy=float(np.mean([epoch.valid_accuracy for epoch in epochs])),
        valid_f1=float(np.mean([epoch.valid_f1 for epoch in epochs])),
        elapsed_s=float(np.mean([epoch.elapsed_s for epoch in epochs])),
    )


def train_final_model(
    config: CompareConfig,
    run: RunFolder,
    plan: ExperimentPlan,
    tuned: Sequence[TunedArm],
    scores: dict[str, float],
) -> None:
    """Train an arm once more with the setting that most folds chose, and keep the model.

    If it is trained on all texts, it has the scores of the cross-validation.
    """
    name, is_refitted = tuned[0].arm, config.refits
    progress.say(f"training {name} on the texts of all folds, to keep the model")
    config = replace(config, folds=None)
    with progress.silenced():
        plan = plan_arms(config, plan.texts.joined(is_refitted), plan.sources)
    planned = next(planned for planned in plan.arms if planned.arm.name == name)
    labels = len(plan.texts.pool)
    group = CellGroup(
        arm=planned.arm,
        splits=planned.parts[0],
        labels=labels,
        pool=plan.texts.pool,
        config=config,
        stem=run.cells / "all-folds",
        keeper=ModelKeeper(config, run, plan, labels, scores if is_refitted else None),
        fold=None,
    )
    seed = config.seeds[0]
    if group.missing([seed]):
        ((value, _),) = Counter(fold.values[0] for fold in tuned).most_common(1)
        group.fit(replace(tuned[0], labels=labels, values=(value, value)), seed)
