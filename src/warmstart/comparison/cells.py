"""The cells of a comparison: each is trained once and saved; a resumed comparison reads it.

Each arm is tuned at each subset with a seed that is not reported, so that the reported cells are
independent. A cell depends only on its own arm, subset and seed, and on that tuning. In a
cross-validation, each fold has tunings and cells of its own. There, and with a test set but no
validation file, the cells train on the texts that tuned them, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from warmstart.comparison.arms import ExperimentArm, Splits, TrainedModel
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan
from warmstart.comparison.results import Cell, TunedArm
from warmstart.comparison.selection import fit_cell, num_tried, refit_cell, tune
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.splits import LabelPool, nested_rows
from warmstart.errors import WarmstartError
from warmstart.files import remove_own, take_over, whole_folder, write_json
from warmstart.formats import quantity
from warmstart.jsonfiles import from_json, read_object
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.runs.saved import lineage_of
from warmstart.tasks.labelled_data import readable_rows

TUNING_SEED = -1  # never reported: --seeds are not negative
Step = int | Literal["tuning"]  # the cell of a seed, or the tuning before all cells
Result = TunedArm | Cell  # of a step


@dataclass(frozen=True)
class ModelKeeper:
    """Saves trained models: the best one of each arm, all of them, or none."""

    config: CompareConfig
    run: RunFolder  # of the comparison
    plan: ExperimentPlan
    most_labels: int  # labels of the largest subset, on which the best model is trained
    scores: dict[str, float] | None = None  # None: those of the model itself on validation
    scored_labels: int | None = None  # that the models with these scores were trained on

    def keep(self, cell: Cell, model: TrainedModel, texts: Sequence[str]) -> None:
        """Save a model that was trained on these texts, if --save asks for it.

        Among equal models that of the first seed is best, so that the order in which cells finish
        changes nothing.
        """
        if self.config.save == "all" or (self.config.save == "best" and self._is_best(cell)):
            self._write(cell, model, texts)

    def path(self, cell: Cell) -> Path:
        """Return the folder of the model of a cell."""
        name = re.sub(r"[^\w.-]+", "-", cell.arm)
        is_single = self.config.save == "best"
        return self.run.models / (name if is_single else f"{name}-{cell.labels}-{cell.seed}")

    def _is_best(self, cell: Cell) -> bool:
        """Tell whether no kept model of the arm has more labels, or is better with as many."""
        kept = RunFolder(self.path(cell))
        if self.scores is not None:
            return True  # it is trained on more texts than any model before it
        if cell.labels < self.most_labels and self.config.minutes is None:
            return False  # with --minutes, the largest subset may be left out
        if not kept.is_finished:
            return True
        facts = kept.scores()
        preference = cell.labels, *self._preference(self._scores(cell), cell.seed)
        return preference >= (facts.labels, *self._preference(kept.valid_scores(), facts.seed))

    def _preference(self, scores: Mapping[str, float], seed: int) -> tuple[float, int]:
        score = self.plan.texts.task.selection_score(scores, self.config)
        is_chosen = not self.config.refits  # else the scores are those of the test
        return score if is_chosen else 0.0, self.config.preference(seed)

    def _mean_score(self, cell: Cell) -> float:
        """Return the mean score of the answers that the model is judged by; 0: of other models."""
        if self.scores is not None:
            return 0.0
        name, texts = self._split, self.plan.texts
        scores = texts.task.text_scores(cell.predictions[name], texts.data[name].targets)
        return float(scores.mean())

    @property
    def _split(self) -> str:
        return "test" if self.config.refits else "validation"

    def _scores(self, cell: Cell) -> dict[str, float]:
        if self.scores is not None:
            return self.scores
        name, texts = self._split, self.plan.texts
        return texts.task.answer_scores(cell.predictions[name], texts.data[name].targets)

    def _write(self, cell: Cell, model: TrainedModel, texts: Sequence[str]) -> None:
        path = self.path(cell)
        if RunFolder(path).config_file.exists():
            take_over([path])  # another process of the comparison may have written it
        remove_own(path)  # a worse model, or one whose cell was not yet written
        with whole_folder(path) as temporary:
            folder = RunFolder(temporary)
            write_config(
                folder,
                "compare",
                replace(self.config, **model.saving.settings),
                model.saving.architecture,
                task=model.saving.task,
                **self.plan.texts.labels,
                arm=cell.arm,
                pairs=self.plan.texts.training.seconds is not None,
            )
            model.saving.write(folder)
            write_json(folder.data_file, self._facts(model, texts))
            facts = {"labels": cell.labels, "seed": cell.seed, "elapsed_s": cell.elapsed_s}
            facts |= {"trained_on": len(texts), "compared": self._mean_score(cell)}
            if self.scored_labels:
                facts["scored_labels"] = self.scored_labels
            folder.finish({"valid": self._scores(cell), **facts})

    def texts(self, split: str, rows: Iterable[int]) -> list[str]:
        """Return the texts of some rows of a split."""
        texts = readable_rows(self.plan.texts.data[split], self.config.pieces)
        return [texts[row] for row in rows]

    def _facts(self, model: TrainedModel, texts: Sequence[str]) -> dict[str, Any]:
        splits = self.plan.texts.data.values()
        labelled = [text for data in splits for text in readable_rows(data, self.config.pieces)]
        return {
            "files": self.run.read_json(self.run.data_file)["files"],
            "fingerprints": fingerprints_of(texts).to_json(),
            "validated": fingerprints_of(labelled).to_json(),
            "lineage": lineage_of(model.saving.parent),
        }


@dataclass(frozen=True)
class CellGroup:
    """One arm at one subset, in one fold: its tuning, and a cell for each seed."""

    arm: ExperimentArm
    splits: Splits  # with all labels
    labels: int
    pool: LabelPool
    config: CompareConfig
    stem: Path  # of the files of finished steps
    keeper: ModelKeeper | None  # None: no model is kept
    fold: int | None  # from 1; None: no cross-validation

    @property
    def title(self) -> str:
        """Name the group."""
        fold = f", fold {self.fold}" if self.fold else ""
        return f"{self.arm.name}, {quantity(self.labels, 'label')}{fold}"

    @property
    def num_tried(self) -> int:
        """Return how many models are trained to choose by, for each number of labels and fold."""
        return num_tried(self.arm, self.config)

    def file(self, step: Step) -> Path:
        """Return the file of the tuning or of a cell; it marks that the step is finished."""
        return Path(f"{self.stem}-{step}.json")

    def run(self, step: Step, tuned: Result | None) -> Result:
        """Tune the arm, or train the cell of a seed with the tuned settings."""
        if step == "tuning":
            return self.tune()
        assert isinstance(tuned, TunedArm), "an arm is tuned before its cells are trained"
        return self.train(tuned, step)

    def tune(self) -> TunedArm:
        """Try the settings of the arm."""
        tuned = tune(self.arm, self._subset(TUNING_SEED), self.config, TUNING_SEED)
        tuned = replace(tuned, fold=self.fold)
        write_json(self.file("tuning"), asdict(tuned))
        return tuned

    def train(self, tuned: TunedArm, seed: int) -> Cell:
        """Train a cell with the tuned settings; save its model first, its file last."""
        subset = self._subset(seed)
        if self.config.refits:
            subset = replace(subset, temperature=tuned.temperature)
            cell, model = refit_cell(self.arm, subset, tuned.values[0], seed)
        else:
            cell, model = fit_cell(self.arm, subset, tuned.values, seed, self.config)
        if self.fold is None:  # the labels of a test file are not doubted
            cell = replace(cell, margins=())
        if self.keeper:
            texts = self.keeper.texts("train", self._rows(seed))
            if self.config.refits:
                texts += self.keeper.texts("validation", subset.selections[0].selecting)
            with self.keeper.run.alone():  # other processes keep models, too
                self.keeper.keep(cell, model, texts)
        write_json(self.file(seed), {"cell": asdict(cell)})
        return cell

    def read_finished(self, seeds: Sequence[int]) -> dict[Step, Result]:
        """Read the steps that are finished; refuse damaged files."""
        steps: list[Step] = ["tuning", *seeds]
        return {step: self._read(step) for step in steps if self.file(step).exists()}

    def _read(self, step: Step) -> Result:
        file = self.file(step)
        try:
            content = read_object(file)
            return self._tuned_arm(content) if step == "tuning" else self._cell(step, content)
        except (WarmstartError, ValueError) as problem:
            raise WarmstartError(
                f"{file} is damaged ({problem}); delete it, and its models are trained again"
            ) from None

    def _tuned_arm(self, content: dict[str, Any]) -> TunedArm:
        tuned = from_json(TunedArm, content, "tuning")
        if len(tuned.values) != len(self.splits.selections):
            raise ValueError(f"{len(tuned.values)} values were chosen")
        return tuned

    def _cell(self, seed: int, content: dict[str, Any]) -> Cell:
        cell = from_json(Cell, content.get("cell"), "cell")
        if (cell.arm, cell.labels, cell.seed) != (self.arm.name, self.labels, seed):
            raise ValueError("it is another cell")
        splits = {"validation": self.splits.valid, "test": self.splits.test}
        if self.config.refits:
            del splits["validation"]
        targets = {name: split.targets for name, split in splits.items() if split}
        counts = {name: len(predicted) for name, predicted in cell.predictions.items()}
        if counts != {name: len(of_split) for name, of_split in targets.items()}:
            raise ValueError("it predicts another number of texts")
        is_answer = partial(self.arm.task.is_answer, labels=self.arm.labels)
        for name, predicted in cell.predictions.items():
            if not all(map(is_answer, predicted, targets[name])):
                raise ValueError("a prediction is not an answer to its text")
        return cell

    def _rows(self, seed: int) -> list[int]:
        num_train, _ = self.pool.divide(self.labels)
        return nested_rows(self.splits.train.strata, seed)[:num_train]

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
    """Yield the group of every arm at every subset in every fold."""
    described = [planned.arm.describe() for planned in plan.arms]
    keeper = None if config.folds else ModelKeeper(config, run, plan, subsets[-1])
    for number, planned in enumerate(plan.arms):
        trials = config.trials if planned.trials is None else planned.trials
        of_arm = replace(config, trials=trials)
        for labels in subsets:
            stem = f"{number}-{described[number].kind}-{labels}"
            for index, part in enumerate(planned.parts):
                fold = index + 1 if config.folds else None
                yield CellGroup(
                    arm=planned.arm,
                    splits=part,
                    labels=labels,
                    pool=plan.texts.pool,
                    config=of_arm,
                    stem=run.cells / (f"{stem}-fold{fold}" if fold else stem),
                    keeper=keeper,
                    fold=fold,
                )
