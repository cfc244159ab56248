"""Keep the models that a comparison trained, as run folders for every other command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.data.fingerprints import fingerprints_of
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.experiments.experiment_plan import ExperimentPlan
from warmstart.experiments.selection import FittedCell
from warmstart.files import whole_folder, write_json
from warmstart.results.comparison import Cell
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.runs.lineage import lineage_of
from warmstart.settings.finetuning import CompareConfig
from warmstart.tasks.labelled_data import readable_rows
from warmstart.temporary import remove


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


def class_scores(truth: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """Return the scores that are recorded with a model."""
    return {"accuracy": accuracy(truth, predicted), "f1": macro_f1(truth, predicted)}
