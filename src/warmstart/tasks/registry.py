"""The tasks there are, by name. A new kind of training is one line here."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.model.models import BackboneOnly
from warmstart.runs.saved import SavedRun, read_run
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.base import suggestion
from warmstart.settings.shared import Device, LabelledFiles, Machine, Precision
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.answer import AnswerTask
from warmstart.tasks.causal import CausalTask
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.lsa import LsaTask
from warmstart.tasks.masked import MaskedTask
from warmstart.tasks.multilabel import MultilabelTask
from warmstart.tasks.one_vs_rest import LsaSetsTask, TfidfSetsTask
from warmstart.tasks.regress import RegressTask
from warmstart.tasks.ridge import LsaNumbersTask, TfidfNumbersTask
from warmstart.tasks.span_overlap import SpanOverlapTask
from warmstart.tasks.tag import TagTask
from warmstart.tasks.task import PretrainingTask, Task
from warmstart.tasks.text_model import TextModel, TransformerModel
from warmstart.tasks.tfidf import TfidfTask
from warmstart.tasks.translate import TranslateTask
from warmstart.tasks.word_features import WordFeaturesTask
from warmstart.textfiles import expand

Labelled = TypeVar("Labelled", bound=LabelledFiles)
AnyTask = TypeVar("AnyTask", bound=Task)
_TASKS: dict[str, Task] = {}


def register(task: Task) -> None:
    """Make a task known under its name."""
    _TASKS[task.name] = task


class BackboneTask(Task):
    """A pretrained backbone to start from, or to embed texts with."""

    name = "backbone"
    description = "a backbone without a head"
    command = "import"
    hub_name = "feature-extraction"
    hub_class = "Model"
    is_pretraining = True

    def empty_model(self, run: SavedRun) -> nn.Module:
        return BackboneOnly(run.model)

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        raise WarmstartError(
            f"{run.path} is {self.description}, which predicts nothing that could be scored; "
            f"fine-tune it first: {self.usage(run.path)}"
        )


for _task in (
    MaskedTask(),  # the default of pretraining
    CausalTask(),
    BackboneTask(),
    ClassifyTask(),
    TagTask(),
    AnswerTask(),
    MultilabelTask(),
    RegressTask(),
    LsaTask(),
    LsaNumbersTask(),
    LsaSetsTask(),
    SpanOverlapTask(),
    TfidfTask(),
    TfidfNumbersTask(),
    TfidfSetsTask(),
    TranslateTask(),
    WordFeaturesTask(),
):
    register(_task)


def task_named(name: str) -> Task:
    """Return a task by its name."""
    if name not in _TASKS:
        raise WarmstartError(f"the task {name!r} is unknown{suggestion(name, _TASKS)}")
    return _TASKS[name]


def task_of(run: SavedRun) -> Task:
    """Return the task that a run was trained for."""
    try:
        return task_named(run.task)
    except WarmstartError as problem:
        raise WarmstartError(f"{run.folder.config_file}: {problem}") from None


def task_for_class(hub_class: str, problem: str | None = None) -> Task:
    """Return the task of models whose class in transformers ends with `hub_class`.

    Of several such tasks, `problem` (`problem_type` of transformers) names one; else the first.
    """
    tasks = [task for task in _TASKS.values() if task.hub_class == hub_class]
    return next((task for task in tasks if task.hub_problem == problem), tasks[0])


def pretraining_task(name: str | None, parent: SavedRun | None = None) -> PretrainingTask:
    """Return the task that `--objective` names; else the parent's, or the first that fits it."""
    if name:
        return _choose(PretrainingTask, name, "--objective")  # type: ignore[type-abstract]
    if parent and isinstance(task := task_of(parent), PretrainingTask):
        return task
    tasks = [task for task in _TASKS.values() if isinstance(task, PretrainingTask)]
    return next(t for t in tasks if not parent or t.attention == parent.model.attention)


def choose_task(config: Labelled) -> Labelled:
    """Return settings with their task; `auto` is the one that the first training file is for."""
    if config.task != "auto":
        return config
    for path in expand(config.train, config.allow_private_urls)[:1] if config.train else ():
        for task in (task for task in _TASKS.values() if isinstance(task, FinetuningTask)):
            if reason := task.detect(path, config):
                progress.say(f"{path}: {reason}, so this is --task {task.name}")
                return replace(config, task=task.name)
    return replace(config, task=ClassifyTask.name)


def finetuning_task(name: str) -> FinetuningTask:
    """Return the task that `--task` names."""
    return _choose(FinetuningTask, name, "--task")  # type: ignore[type-abstract]


def _choose(kind: type[AnyTask], name: str, flag: str) -> AnyTask:
    known = {task.name: task for task in _TASKS.values() if isinstance(task, kind)}
    if name not in known:
        raise WarmstartError(f"{flag} {name!r} is unknown{suggestion(name, known)}")
    return known[name]


def read_backbone(path: str) -> SavedRun:
    """Read a run whose backbone a fine-tuned model can start from."""
    run = read_run(path)
    task = task_of(run)
    if not task.has_backbone:
        raise WarmstartError(
            f"--from {path} is {task.description}; start from a pretrained or a fine-tuned run"
        )
    return run


def load(
    run: str | Path,
    device: Device = "auto",
    precision: Precision = "fp32",
    threads: int | None = None,
) -> TextModel:
    """Load a run for use: it embeds, predicts, generates or translates as its kind can.

    With precision "auto" the model computes in bf16 where the hardware does: fast, less exact.
    """
    return load_on(run, Machine(device=device, precision=precision, threads=threads))


def load_on(run: str | Path, machine: Machine) -> TextModel:
    """Load a run on the device that settings name."""
    return open_saved(read_run(run), machine)


def open_saved(saved: SavedRun, machine: Machine) -> TextModel:
    """Return a run that was read, ready for use on the device that settings name."""
    runtime = choose_runtime(machine.device, machine.precision, machine.threads)
    return task_of(saved).open(saved, runtime)


def load_transformer(run: str | Path, machine: Machine) -> TransformerModel:
    """Load a run that must be a Transformer."""
    return as_transformer(load_on(run, machine))


def as_transformer(model: TextModel) -> TransformerModel:
    """Return a model that must be a Transformer."""
    if not isinstance(model, TransformerModel):
        raise WarmstartError(
            f"{model.name} is {model.description}, which has no Transformer inside"
        )
    return model
