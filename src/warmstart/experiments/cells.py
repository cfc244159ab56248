"""Train the cells of a comparison; finished ones are saved, and read back after an interruption.

Each arm is tuned at each subset with a seed that is not reported, so that the reported cells are
independent. A cell depends only on its own arm, subset and seed, and on that tuning. In a
cross-validation, each fold has tunings and cells of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from warmstart import progress
from warmstart.errors import StoppedError, WarmstartError
from warmstart.experiments.arms import ExperimentArm, Splits
from warmstart.experiments.contrast import attention_arms
from warmstart.experiments.cross_validation import cells_by_key, join_folds
from warmstart.experiments.kept_models import ModelKeeper
from warmstart.experiments.plan import ExperimentPlan
from warmstart.experiments.selection import CellOutputs, FittedCell, fit_cell, tune
from warmstart.experiments.subsets import LabelPool, nested_rows
from warmstart.files import write_json
from warmstart.formats import counted
from warmstart.jsonfiles import read_object, typed
from warmstart.results.attention import map_from_json, map_to_json
from warmstart.results.comparison import Cell, TunedArm
from warmstart.runs.folder import RunFolder
from warmstart.settings.finetuning import CompareConfig
from warmstart.training.interrupt import listening

TUNING_SEED = -1  # never reported: --seeds are not negative
T = TypeVar("T")


@dataclass(frozen=True)
class TrainedCells:
    """Everything that a comparison trained."""

    fitted: list[FittedCell]
    tuned: list[TunedArm]

    def tuned_at(self, arm: str) -> list[TunedArm]:
        """Return the tunings of an arm with the most labels, one for each fold."""
        most = max(tuned.labels for tuned in self.tuned)
        return [tuned for tuned in self.tuned if (tuned.arm, tuned.labels) == (arm, most)]


@dataclass(frozen=True)
class CellGroup:
    """One arm at one subset, in one fold: its tuning, and a cell for each seed."""

    arm: ExperimentArm
    splits: Splits  # with all labels
    labels: int
    pool: LabelPool
    config: CompareConfig
    stem: Path  # of the files that hold what is finished
    attention_seed: int | None  # the seed whose attention is recorded
    keeper: ModelKeeper | None  # None: no model is kept
    fold: int | None  # from 1; None: no cross-validation

    @property
    def title(self) -> str:
        """Name the group."""
        fold = f", fold {self.fold}" if self.fold else ""
        return f"{self.arm.name}, {counted(self.labels, 'label')}{fold}"

    @property
    def is_blended(self) -> bool:
        """Tell whether what the models say is kept for a blend."""
        return "blend" in self.config.arms

    def tune(self) -> TunedArm:
        """Try the settings, or read what was tried."""
        tuned = _saved(
            Path(f"{self.stem}-tuning.json"),
            lambda: tune(self.arm, self._subset(TUNING_SEED), self.config, TUNING_SEED),
            asdict,
            self._read_tuned,
        )
        return replace(tuned, fold=self.fold)

    def fit(self, tuned: TunedArm, seed: int) -> FittedCell:
        """Train one cell, or read it."""
        fitted = _saved(
            Path(f"{self.stem}-{seed}.json"),
            lambda: self._train(tuned, seed),
            _fitted_to_json,
            self._read_fitted,
        )
        if self.keeper:
            self.keeper.note(fitted.cell)
        return replace(fitted, model=None)

    def _train(self, tuned: TunedArm, seed: int) -> FittedCell:
        """Train one cell; its model is saved before the cell, which marks the end."""
        fitted = fit_cell(self.arm, self._subset(seed), tuned.values, seed, self.config)
        if self.keeper:
            self.keeper.keep(fitted, self._rows(seed))
        return fitted if self.is_blended else replace(fitted, outputs=None)

    def _read_tuned(self, content: dict[str, Any]) -> TunedArm:
        tuned = typed(TunedArm, content, "tuning")
        if len(tuned.values) != len(self.splits.selections):
            raise ValueError(f"{len(tuned.values)} values were chosen")
        return tuned

    def _read_fitted(self, content: dict[str, Any]) -> FittedCell:
        cell = typed(Cell, content.get("cell"), "cell")
        numbers = set(self.splits.train.classes)
        splits = {"validation": self.splits.valid, "test": self.splits.test}
        num_texts = {name: len(split.texts) for name, split in splits.items() if split}
        if {name: len(predicted) for name, predicted in cell.predictions.items()} != num_texts:
            raise ValueError("it predicts another number of texts")
        if not numbers.issuperset(chain.from_iterable(cell.predictions.values())):
            raise ValueError("it predicts unknown classes")
        attention = map_from_json(content["attention"]) if "attention" in content else None
        return FittedCell(cell, self._read_outputs(content), attention)

    def _read_outputs(self, content: dict[str, Any]) -> CellOutputs | None:
        if not self.is_blended:
            return None
        read = content["outputs"]
        validation = tuple(np.array(outputs, np.float64) for outputs in read["validation"])
        test = None if read["test"] is None else np.array(read["test"], np.float64)
        num_classes = len(set(self.splits.train.classes))
        for outputs, split in [
            *((outputs, self.splits.valid) for outputs in validation),
            (test, self.splits.test),
        ]:
            shape = (len(split.texts), num_classes) if split else None
            if (None if outputs is None else outputs.shape) != shape:
                raise ValueError("it has probabilities of other texts")
        return CellOutputs(validation, test)

    def _rows(self, seed: int) -> list[int]:
        num_train, _ = self.pool.divide(self.labels)
        return nested_rows(self.splits.train.classes, seed)[:num_train]

    def _subset(self, seed: int) -> Splits:
        _, num_selecting = self.pool.divide(self.labels)
        return replace(
            self.splits,
            train=self.splits.train.subset(self._rows(seed)),
            attention_row=self.splits.attention_row if seed == self.attention_seed else None,
            num_selecting=num_selecting,
        )


def train_cells(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, subsets: Sequence[int]
) -> TrainedCells:
    """Tune every arm at every subset and train every cell, except those that are finished."""
    trained = TrainedCells([], [])
    num_tried = config.trials if config.trials > 1 else 0
    num_groups = len(plan.arms) * len(subsets) * (config.folds or 1)
    total = num_groups * (num_tried + len(config.seeds))
    with listening() as interrupt, progress.bar("comparing", total, "model") as bar:
        try:
            for group in _groups(config, run, plan, subsets):
                tuned = group.tune()
                trained.tuned.append(tuned)
                interrupt.obey()
                bar.advance(num_tried, f"{group.title}, tuned")
                for seed in config.seeds:
                    trained.fitted.append(group.fit(tuned, seed))
                    interrupt.obey()
                    bar.advance(1, f"{group.title}, seed {seed}")
        except StoppedError as stop:
            message = f"stopped; finished cells are in {run.path}: continue with --resume"
            raise StoppedError(message, stop.signal_number) from None
    fitted = [*trained.fitted, *_blend(trained.fitted, plan)]
    folds = plan.texts.folds
    return replace(trained, fitted=join_folds(fitted, folds) if folds else fitted)


def _blend(fitted: Sequence[FittedCell], plan: ExperimentPlan) -> Iterator[FittedCell]:
    """Yield the cells of every blend."""
    cells = cells_by_key(fitted)
    parts = {planned.arm.name: planned.parts for planned in plan.arms}
    for blend in plan.blends:
        for (arm, labels, seed), of_folds in cells.items():
            if arm != blend.first:
                continue
            _, num_selecting = plan.texts.pool.divide(labels)
            others = cells[blend.second, labels, seed]
            for first, second, part in zip(of_folds, others, parts[arm], strict=True):
                yield blend.fit(first, second, replace(part, num_selecting=num_selecting))


def _groups(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, subsets: Sequence[int]
) -> Iterator[CellGroup]:
    """Yield every arm at every subset in every fold."""
    described = [planned.arm.describe() for planned in plan.arms]
    shown = attention_arms(described)
    keeper = None if config.folds else ModelKeeper(config, run, plan, subsets[-1])
    for number, planned in enumerate(plan.arms):
        for labels in subsets:
            stem = f"{number}-{described[number].kind}-{labels}"
            is_shown = planned.arm.name in shown and labels == subsets[-1]
            for index, part in enumerate(planned.parts):
                fold = index + 1 if config.folds else None
                yield CellGroup(
                    arm=planned.arm,
                    splits=part,
                    labels=labels,
                    pool=plan.texts.pool,
                    config=config,
                    stem=run.cells / (f"{stem}-fold{fold}" if fold else stem),
                    attention_seed=config.seeds[0] if is_shown else None,
                    keeper=keeper,
                    fold=fold,
                )


def _saved(
    file: Path,
    make: Callable[[], T],
    to_json: Callable[[T], dict[str, Any]],
    from_json: Callable[[dict[str, Any]], T],
) -> T:
    """Return what a file holds, or make it and write the file."""
    if not file.exists():
        made = make()
        write_json(file, to_json(made))
        return made
    try:
        return from_json(read_object(file))
    except (WarmstartError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise WarmstartError(
            f"{file} is damaged ({problem}); delete it, and its models are trained again"
        ) from None


def _fitted_to_json(fitted: FittedCell) -> dict[str, Any]:
    content: dict[str, Any] = {"cell": asdict(fitted.cell)}
    if fitted.outputs is not None:
        test = fitted.outputs.test
        content["outputs"] = {
            "validation": [outputs.tolist() for outputs in fitted.outputs.validation],
            "test": None if test is None else test.tolist(),
        }
    if fitted.attention is not None:
        content["attention"] = map_to_json(fitted.attention)
    return content
