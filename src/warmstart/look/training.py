"""What a language model predicts before, during and after its training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warmstart.formats import shorten
from warmstart.look.commands import LookTrainingConfig
from warmstart.report.html import Drawn, Table
from warmstart.report.style import INK, SHADES, save_image, styled
from warmstart.runs.checkpoint import list_checkpoints, step_of
from warmstart.runs.saved import SavedRun, read_run
from warmstart.seeds import derive_seed
from warmstart.tasks.registry import open_saved, task_of
from warmstart.tasks.text_model import ProbableWord

NUM_CHECKPOINTS = 4  # shown between random and trained weights
PANEL, ROW = 1.75, 0.3  # inches
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The most probable words at one moment, best first."""

    name: str  # "random weights", "step 40", "trained"
    words: tuple[ProbableWord, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingMoments(Drawn):
    """Predictions for one text, from random weights to the trained ones."""

    run: str
    text: str
    moments: tuple[Moment, ...]

    @property
    def sentence(self) -> str:
        """Return the first choice before and after training, without a full stop."""
        (before, after) = (self.moments[index].words[0] for index in (0, -1))
        return (
            f"first choice: {before.word!r} ({before.probability:.1%}) with random weights, "
            f"{after.word!r} ({after.probability:.1%}) trained"
        )

    def table(self) -> Table:
        """Return headers, and each moment with its words."""
        rows = [
            (moment.name, "; ".join(f"{w.word} {w.probability:.1%}" for w in moment.words))
            for moment in self.moments
        ]
        return ("moment", "words"), rows

    @styled
    def draw(self) -> Figure:
        """Draw a panel of bars for each moment."""
        columns = len(self.moments)
        num_words = max(len(moment.words) for moment in self.moments)
        size = (max(4.0, PANEL * columns), ROW * num_words + 1.1)
        drawing = Figure(figsize=size, layout="constrained")
        drawing.suptitle(f"{shorten(self.run, 40)}: “{shorten(self.text, 70)}”")
        highest = max(word.probability for moment in self.moments for word in moment.words)
        grid = drawing.subplots(1, columns, squeeze=False)[0]
        for axes, moment in zip(grid, self.moments, strict=True):
            _draw_moment(axes, moment, highest, is_last=moment is self.moments[-1])
            axes.set_ylim(num_words - 0.4, -0.6)
        return drawing


def look_training(config: LookTrainingConfig) -> TrainingMoments:
    """Show what a language model predicts with random weights, at its checkpoints, and trained."""
    moments = []
    for name, saved in _moments(read_run(config.run), config.seed):
        model = open_saved(saved, config)
        text = model.text_reader(config.pieces)(config.text)
        moments.append(Moment(name=name, words=model.probable_words(text, config.top_k)))
    training = TrainingMoments(run=config.run, text=config.text, moments=tuple(moments))
    save_image(training.draw(), Path(config.out))
    return training


def _moments(run: SavedRun, seed: int) -> Iterator[tuple[str, SavedRun]]:
    """Yield the run with random weights, at its checkpoints, and trained."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "random weights"))
        random = dict(task_of(run).empty_model(run).state_dict())
    yield "random weights", replace(run, weights=random)
    checkpoints = list_checkpoints(run.folder)
    if checkpoints and _is_same(read_run(checkpoints[-1]), run):
        checkpoints.pop()
    for checkpoint in pick_evenly(checkpoints, NUM_CHECKPOINTS):
        yield f"step {step_of(checkpoint):,}", read_run(checkpoint)
    yield "trained", run


def _is_same(run: SavedRun, other: SavedRun) -> bool:
    return all(torch.equal(run.weights[name], other.weights[name]) for name in other.weights)


def _draw_moment(axes: Axes, moment: Moment, highest: float, is_last: bool) -> None:
    shares = [word.probability for word in moment.words]
    colour = SHADES["warm"][0] if is_last else SHADES["cold"][1]
    axes.barh(range(len(shares)), shares, color=colour, height=0.78, alpha=0.55)
    for row, word in enumerate(moment.words):
        text = f"{shorten(word.word, 12)}  {word.probability:.1%}"
        axes.text(0.02 * highest, row, text, va="center", color=INK, fontsize=7.5)
    axes.set_title(moment.name)
    axes.set_xlim(0, 1.05 * highest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def pick_evenly(values: Sequence[T], num: int) -> list[T]:
    """Return at most `num` values at equal distances, the last one included."""
    if len(values) <= num:
        return list(values)
    return [values[len(values) * (index + 1) // num - 1] for index in range(num)]
