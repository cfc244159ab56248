"""Show what a language model predicts at several moments of its training."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from warmstart.loading import open_saved
from warmstart.report.html import write_picture
from warmstart.report.notebook import ShownFile
from warmstart.report.training_figure import draw_moments, moment_sections
from warmstart.results.training_views import Moment, TrainingMoments, spaced
from warmstart.runs.checkpoint import list_checkpoints, step_of
from warmstart.runs.saved import SavedRun, read_run
from warmstart.seeds import derive_seed
from warmstart.settings.looking import LookTrainingConfig
from warmstart.tasks.registry import task_of

NUM_CHECKPOINTS = 4  # shown between random and trained weights


@dataclass(frozen=True)
class TrainingLook(ShownFile):
    """Predictions at several moments, and the file that shows them."""

    out: Path
    moments: TrainingMoments


def look_training(config: LookTrainingConfig) -> TrainingLook:
    """Show what a language model predicts with random weights, at its checkpoints, and trained."""
    moments = []
    for name, saved in _moments(read_run(config.run), config.seed):
        model = open_saved(saved, config)
        text = model.text_reader(config.pieces)(config.text)
        moments.append(Moment(name=name, words=model.probable_words(text, config.top_k)))
    view = TrainingMoments(run=config.run, text=config.text, moments=tuple(moments))
    title = f"Training of {config.run}"
    out = write_picture(draw_moments(view), title, moment_sections(view), Path(config.out))
    return TrainingLook(out, view)


def _moments(run: SavedRun, seed: int) -> Iterator[tuple[str, SavedRun]]:
    """Yield the run with random weights, at its checkpoints, and trained."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "random weights"))
        random = dict(task_of(run).empty_model(run).state_dict())
    yield "random weights", replace(run, weights=random)
    checkpoints = list_checkpoints(run.folder)
    if checkpoints and _is_same(read_run(checkpoints[-1]), run):
        checkpoints.pop()
    for checkpoint in spaced(checkpoints, NUM_CHECKPOINTS):
        yield f"step {step_of(checkpoint):,}", read_run(checkpoint)
    yield "trained", run


def _is_same(run: SavedRun, other: SavedRun) -> bool:
    return all(torch.equal(run.weights[name], other.weights[name]) for name in other.weights)
