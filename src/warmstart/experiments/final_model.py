"""The model to use after a cross-validation: one more training, on the texts of all folds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from warmstart import progress
from warmstart.experiments.cells import CellGroup
from warmstart.experiments.kept_models import ModelKeeper
from warmstart.experiments.plan import ExperimentPlan, plan_arms
from warmstart.results.comparison import TunedArm
from warmstart.runs.folder import RunFolder
from warmstart.settings.finetuning import CompareConfig


def train_final_model(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, tuned: Sequence[TunedArm]
) -> None:
    """Train an arm once more with the setting that most folds chose, and keep the model."""
    name = tuned[0].arm
    progress.say(f"training {name} on the texts of all folds, to keep the model")
    config = replace(config, folds=None)
    with progress.silenced():
        plan = plan_arms(config, plan.texts.joined(), plan.sources)
    planned = next(planned for planned in plan.arms if planned.arm.name == name)
    labels = len(plan.texts.pool)
    group = CellGroup(
        arm=planned.arm,
        splits=planned.parts[0],
        labels=labels,
        pool=plan.texts.pool,
        config=config,
        stem=run.cells / "all-folds",
        attention_seed=None,
        keeper=ModelKeeper(config, run, plan, labels),
        fold=None,
    )
    seed = config.seeds[0]
    if group.missing([seed]):
        ((value, _),) = Counter(fold.values[0] for fold in tuned).most_common(1)
        group.fit(replace(tuned[0], labels=labels, values=(value, value)), seed)
