"""The cells of a comparison: each is trained once, saved, and read back.

Each arm is tuned at each subset with a seed that is not reported, so that the reported cells are
independent. A cell depends only on its own arm, subset and seed, and on that tuning. In a
cross-validation, each fold has tunings and cells of its own, and the cells train on the texts that
tuned them, too.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from warmstart.comparison.arms import ExperimentArm, Splits
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan
from warmstart.comparison.results import Cell, TunedArm
from warmstart.comparison.selection import FittedCell, fit_cell, refit_cell, tune
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.splits import LabelPool, nested_rows
from warmstart.errors import WarmstartError
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.files import remove, whole_folder, write_json
from warmstart.formats import counted
from warmstart.jsonfiles import read_object, typed
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.runs.saved import lineage_of
from warmstart.tasks.labelled_data import readable_rows

TUNING_SEED = -1  # never reported: --seeds are not negative
T = TypeVar("T")


@dataclass(frozen=True)
class ModelKeeper:
    """Saves trained models: the best one of each arm, all of them, or none."""

    config: CompareConfig
    run: RunFolder  # of the comparison
    plan: ExperimentPlan
    most_labels: int  # the best model of an arm has all of these
    scores: dict[str, float] | None = None  # None: those of the model itself on validation

    def keep(self, fitted: FittedCell, rows: Sequence[int], others: Sequence[Cell]) -> None:
        """Save a model that was trained on these rows, if it is asked for.

        The others are the finished cells of the same arm and subset. Of equal ones the first seed
        is best, so that the order in which cells finish changes nothing.
        """
        is_best = fitted.cell.labels == self.most_labels and all(
            self._preference(fitted.cell) > self._preference(other) for other in others
        )
        if self.config.save == "all" or (self.config.save == "best" and is_best):
            self._write(fitted, rows)

    def path(self, cell: Cell) -> Path:
        """Return the folder of a model."""
        name = re.sub(r"[^\w.-]+", "-", cell.arm)
        is_single = self.config.save == "best"
        return self.run.models / (name if is_single else f"{name}-{cell.labels}-{cell.seed}")

    def _preference(self, cell: Cell) -> tuple[float, int]:
        return self._scores(cell)[self.config.select], -self.config.seeds.index(cell.seed)

    def _scores(self, cell: Cell) -> dict[str, float]:
        if self.scores is not None:
            return self.scores
        truth = self.plan.texts.class_numbers(self.plan.texts.data["validation"])
        return class_scores(truth, cell.predictions["validation"])

    def _write(self, fitted: FittedCell, rows: Sequence[int]) -> None:
        assert fitted.model is not None
        cell, saving, path = fitted.cell, fitted.model.saving, self.path(fitted.cell)
        remove(path)  # a worse model, or what was saved before its cell was written
        with whole_folder(path) as temporary:
            folder = RunFolder(temporary)
            write_config(
                folder,
                "compare",
                self.config,
                saving.architecture,
                task=saving.task,
                classes=list(self.plan.texts.classes),
                arm=cell.arm,
                pairs=self.plan.texts.training.seconds is not None,
            )
            saving.write(folder)
            write_json(folder.data_file, self._facts(fitted, rows))
            facts = {"labels": cell.labels, "seed": cell.seed, "elapsed_s": cell.elapsed_s}
            facts["trained_on"] = len(rows)
            folder.finish({"valid": self._scores(cell), **facts})

    def _facts(self, fitted: FittedCell, rows: Sequence[int]) -> dict[str, Any]:
        assert fitted.model is not None
        texts = readable_rows(self.plan.texts.training, self.config.pieces)
        return {
            "files": self.run.read_json(self.run.data_file)["files"],
            "fingerprints": fingerprints_of(texts[row] for row in rows).to_json(),
            "lineage": lineage_of(fitted.model.saving.parent),
        }


@dataclass(frozen=True)
class CellGroup:
    """One arm at one subset, in one fold: its tuning, and a cell for each seed."""

    arm: ExperimentArm
    splits: Splits  # with all labels
    labels: int
    pool: LabelPool
    config: CompareConfig
    stem: Path  # of the files that hold what is finished
    keeper: ModelKeeper | None  # None: no model is kept
    fold: int | None  # from 1; None: no cross-validation

    @property
    def title(self) -> str:
        """Name the group."""
        fold = f", fold {self.fold}" if self.fold else ""
        return f"{self.arm.name}, {counted(self.labels, 'label')}{fold}"

    def file(self, seed: int | None) -> Path:
        """Return the file of a cell; without a seed, that of the tuning."""
        return Path(f"{self.stem}-{'tuning' if seed is None else seed}.json")

    def train(self, seed: int | None) -> None:
        """Train a cell; without a seed, tune the arm, which comes first."""
        if seed is None:
            tuned = tune(self.arm, self._subset(TUNING_SEED), self.config, TUNING_SEED)
            write_json(self.file(None), asdict(tuned))
        else:
            self.fit(self.tuned(), seed)

    def fit(self, tuned: TunedArm, seed: int) -> None:
        """Train a cell as tuned; its model is saved before its file, which marks the end."""
        subset = self._subset(seed)
        if self.config.refits:
            fitted = refit_cell(self.arm, subset, tuned.values[0], seed)
        else:
            fitted = fit_cell(self.arm, subset, tuned.values, seed, self.config)
        content = {"cell": asdict(fitted.cell)}
        if not self.keeper:
            write_json(self.file(seed), content)
            return
        with self.keeper.run.alone():  # other processes keep models, too
            finished = [other for other in self.config.seeds if self.file(other).exists()]
            others = [self.cell(other).cell for other in finished]
            self.keeper.keep(fitted, self._rows(seed), others)
            write_json(self.file(seed), content)

    def tuned(self) -> TunedArm:
        """Read what was tried and chosen."""
        return replace(_read(self.file(None), self._read_tuned), fold=self.fold)

    def cell(self, seed: int) -> FittedCell:
        """Read a finished cell."""
        return _read(self.file(seed), partial(self._read_fitted, seed))

    def missing(self, seeds: Sequence[int | None]) -> list[int | None]:
        """Return which of the tuning (None) and the cells are not finished; refuse damaged ones."""
        for seed in seeds:
            if self.file(seed).exists():
                self.tuned() if seed is None else self.cell(seed)
        return [seed for seed in seeds if not self.file(seed).exists()]

    def _read_tuned(self, content: dict[str, Any]) -> TunedArm:
        tuned = typed(TunedArm, content, "tuning")
        if len(tuned.values) != len(self.splits.selections):
            raise ValueError(f"{len(tuned.values)} values were chosen")
        return tuned

    def _read_fitted(self, seed: int, content: dict[str, Any]) -> FittedCell:
        cell = typed(Cell, content.get("cell"), "cell")
        if (cell.arm, cell.labels, cell.seed) != (self.arm.name, self.labels, seed):
            raise ValueError("it is another cell")
        numbers = set(self.splits.train.classes)
        splits = {"validation": self.splits.valid, "test": self.splits.test}
        if self.config.refits:
            del splits["validation"]
        num_texts = {name: len(split.texts) for name, split in splits.items() if split}
        if {name: len(predicted) for name, predicted in cell.predictions.items()} != num_texts:
            raise ValueError("it predicts another number of texts")
        if not numbers.issuperset(chain.from_iterable(cell.predictions.values())):
            raise ValueError("it predicts unknown classes")
        return FittedCell(cell)

    def _rows(self, seed: int) -> list[int]:
        num_train, _ = self.pool.divide(self.labels)
        return nested_rows(self.splits.train.classes, seed)[:num_train]

    def _subset(self, seed: int) -> Splits:
        _, num_selecting = self.pool.divide(self.labels)
        return replace(
            self.splits,
            train=self.splits.train.subset(self._rows(seed)),
            num_selecting=num_selecting,
        )


def cell_groups(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, subsets: Sequence[int]
) -> Iterator[CellGroup]:
    """Yield every arm at every subset in every fold."""
    described = [planned.arm.describe() for planned in plan.arms]
    keeper = None if config.folds else ModelKeeper(config, run, plan, subsets[-1])
    for number, planned in enumerate(plan.arms):
        for labels in subsets:
            stem = f"{number}-{described[number].kind}-{labels}"
            for index, part in enumerate(planned.parts):
                fold = index + 1 if config.folds else None
                yield CellGroup(
                    arm=planned.arm,
                    splits=part,
                    labels=labels,
                    pool=plan.texts.pool,
                    config=config,
                    stem=run.cells / (f"{stem}-fold{fold}" if fold else stem),
                    keeper=keeper,
                    fold=fold,
                )


def _read(file: Path, from_json: Callable[[dict[str, Any]], T]) -> T:
    try:
        return from_json(read_object(file))
    except (WarmstartError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise WarmstartError(
            f"{file} is damaged ({problem}); delete it, and its models are trained again"
        ) from None


def class_scores(truth: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """Return the scores that are recorded with a model."""
    return {"accuracy": accuracy(truth, predicted), "f1": macro_f1(truth, predicted)}
