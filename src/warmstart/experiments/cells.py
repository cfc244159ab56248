"""Train the cells of a comparison; finished ones are saved, and read back after an interruption.

Each arm is tuned at each subset with a seed that is not reported, so that the reported cells are
independent. A cell depends only on its own arm, subset and seed, and on that tuning.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from warmstart import progress
from warmstart.errors import StoppedError, WarmstartError
from warmstart.experiments.arms import ExperimentArm, Splits
from warmstart.experiments.contrast import attention_arms
from warmstart.experiments.kept_models import ModelKeeper
from warmstart.experiments.plan import ExperimentPlan
from warmstart.experiments.selection import FittedCell, fit_cell, tune
from warmstart.experiments.subsets import LabelPool, nested_rows
from warmstart.files import write_json
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


@dataclass(frozen=True)
class CellGroup:
    """One arm at one subset: its tuning, and a cell for each seed."""

    arm: ExperimentArm
    splits: Splits  # with all labels
    labels: int
    pool: LabelPool
    config: CompareConfig
    stem: Path  # of the files that hold what is finished
    attention_seed: int | None  # the seed whose attention is recorded
    keeper: ModelKeeper

    def tune(self) -> TunedArm:
        """Try the settings, or read what was tried."""
        return _saved(
            Path(f"{self.stem}-tuning.json"),
            lambda: tune(self.arm, self._subset(TUNING_SEED), self.config, TUNING_SEED),
            asdict,
            self._read_tuned,
        )

    def fit(self, tuned: TunedArm, seed: int) -> FittedCell:
        """Train one cell, or read it."""
        fitted = _saved(
            Path(f"{self.stem}-{seed}.json"),
            lambda: self._train(tuned, seed),
            _fitted_to_json,
            self._read_fitted,
        )
        self.keeper.note(fitted.cell)
        return replace(fitted, model=None)

    def _train(self, tuned: TunedArm, seed: int) -> FittedCell:
        """Train one cell; its model is saved before the cell, which marks the end."""
        fitted = fit_cell(self.arm, self._subset(seed), tuned.values, seed, self.config)
        self.keeper.keep(fitted, self._rows(seed))
        return fitted

    def _read_tuned(self, content: dict[str, Any]) -> TunedArm:
        tuned = typed(TunedArm, content, "tuning")
        if len(tuned.values) != len(self.splits.folds):
            raise ValueError(f"{len(tuned.values)} values were chosen")
        return tuned

    def _read_fitted(self, content: dict[str, Any]) -> FittedCell:
        cell = typed(Cell, content.get("cell"), "cell")
        numbers = set(self.splits.train.classes)
        for predictions, split in (
            (cell.valid_predictions, self.splits.valid),
            (cell.test_predictions, self.splits.test),
        ):
            if len(predictions or ()) != len(split.texts if split else ()):
                raise ValueError("it predicts another number of texts")
            if not numbers.issuperset(predictions or ()):
                raise ValueError("it predicts unknown classes")
        attention = map_from_json(content["attention"]) if "attention" in content else None
        return FittedCell(cell, attention)

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
    total = len(plan.arms) * len(subsets) * (num_tried + len(config.seeds))
    with listening() as interrupt, progress.bar("comparing", total, "model") as bar:
        try:
            for group in _groups(config, run, plan, subsets):
                where = f"{group.arm.name}, {group.labels:,} labels"
                tuned = group.tune()
                trained.tuned.append(tuned)
                interrupt.obey()
                bar.advance(num_tried, f"{where}, tuned")
                for seed in config.seeds:
                    trained.fitted.append(group.fit(tuned, seed))
                    interrupt.obey()
                    bar.advance(1, f"{where}, seed {seed}")
        except StoppedError as stop:
            message = f"stopped; finished cells are in {run.path}: continue with --resume"
            raise StoppedError(message, stop.signal_number) from None
    return trained


def _groups(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, subsets: Sequence[int]
) -> Iterator[CellGroup]:
    """Yield every arm at every subset."""
    described = [arm.describe() for arm, _ in plan.arms]
    shown = attention_arms(described)
    keeper = ModelKeeper(config, run, plan, subsets[-1])
    for number, (arm, splits) in enumerate(plan.arms):
        for labels in subsets:
            stem = run.cells / f"{number}-{described[number].kind}-{labels}"
            is_shown = arm.name in shown and labels == subsets[-1]
            attention_seed = config.seeds[0] if is_shown else None
            yield CellGroup(arm, splits, labels, plan.pool, config, stem, attention_seed, keeper)


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
    if fitted.attention is not None:
        content["attention"] = map_to_json(fitted.attention)
    return content
