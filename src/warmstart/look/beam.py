"""A beam search step by step, with the paths that were dropped."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from warmstart.decoding.beam import SpecialIds, Step, beam_search
from warmstart.decoding.translator import max_target_tokens
from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.look.commands import LookBeamConfig
from warmstart.model.attention_weights import readable
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, INK, save_image, styled
from warmstart.settings.using import Beam
from warmstart.tasks.registry import load_on
from warmstart.tasks.translate import TextTranslator

Status = Literal["kept", "ended", "dropped"]
TokenPath = tuple[int, ...]  # token ids from the first to the last
COLUMN, ROW = 1.25, 0.42  # inches of a step and of a candidate
MIN_WIDTH = 4.5  # inches
LEGEND_WIDTH = 7.0  # inches that the legend needs on one line
STEPS_IN_ROW = 6
COLOURS: dict[Status, str] = {"kept": "#d5521c", "ended": "#2166ac", "dropped": "#b4b4b4"}
MEANINGS: dict[Status, str] = {
    "kept": "kept: continues",
    "ended": "ended: a whole translation",
    "dropped": "dropped",
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A beginning of the target that one step considered."""

    path: TokenPath
    piece: str  # its last token
    log_prob: float  # of all its tokens
    status: Status


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A whole target."""

    path: TokenPath  # without the end token
    text: str
    log_prob: float  # of the target, its end token included
    score: float  # log_prob divided by the length penalty


@dataclass(frozen=True, kw_only=True)
class BeamTree(Drawn):
    """Every step of one search."""

    source: str
    width: int
    steps: tuple[tuple[Candidate, ...], ...]  # the most probable candidate of each step first
    endings: tuple[Ending, ...]  # by score, best first

    @property
    def num_dropped(self) -> int:
        """Return how many candidates of all steps were dropped."""
        return sum(candidate.status == "dropped" for step in self.steps for candidate in step)

    def is_best(self, candidate: Candidate) -> bool:
        """Tell whether a candidate is a beginning of the best target, or all of it."""
        best = self.endings[0].path
        is_end = candidate.status == "ended" and candidate.path[:-1] == best
        return is_end or (candidate.path == best[: len(candidate.path)])

    @property
    def sentence(self) -> str:
        """Return the best target, and where greedy search would have chosen another path."""
        best = self.steps[: len(self.endings[0].path) + 1]
        lost = next((i for i, step in enumerate(best, 1) if not self.is_best(step[0])), None)
        greedy = f"; at step {lost} another path was the most probable" if lost else ""
        return (
            f"{len(self.steps)} steps, {self.num_dropped} paths dropped: “{self.endings[0].text}” "
            f"(score {self.endings[0].score:.4f}){greedy}"
        )

    def table(self) -> Table:
        """Return headers, and a row for each finished translation, with its score."""
        rows = [(ending.text, f"{ending.score:.4f}") for ending in self.endings]
        return ("translation", "score"), rows

    @styled
    def draw(self) -> Figure:
        """Draw every step of a search, in rows that fit the width of a page."""
        firsts = range(0, len(self.steps), STEPS_IN_ROW)
        columns = min(len(self.steps), STEPS_IN_ROW) + 1
        height = max(map(len, self.steps))
        size = (max(MIN_WIDTH, COLUMN * columns), (ROW * height + 0.5) * len(firsts) + 0.9)
        drawing = Figure(figsize=size, layout="constrained")
        drawing.suptitle(f"Beam search with {self.width} hypotheses: “{shorten(self.source, 60)}”")
        rows = drawing.subplots(len(firsts), 1, squeeze=False)[:, 0]
        for axes, first in zip(rows, firsts, strict=True):
            axes.set_axis_off()
            axes.set_xlim(first - 0.5, first + columns - 0.5)
            axes.set_ylim(-height + 0.4, 1.2)
            _draw_steps(axes, self, first)
        lines = [
            Line2D([], [], color=COLOURS[status], label=MEANINGS[status]) for status in COLOURS
        ]
        lines.append(Line2D([], [], color=INK, linewidth=2.4, label="thick: the translation"))
        ncols = 4 if size[0] >= LEGEND_WIDTH else 2
        drawing.legend(handles=lines, loc="outside lower center", ncols=ncols, frameon=False)
        return drawing


def look_beam(config: LookBeamConfig) -> BeamTree:
    """Show how a beam search translates one sentence."""
    model = load_on(config.run, config)
    if not isinstance(model, TextTranslator):
        raise WarmstartError(f"{config.run} is {model.description}; a beam needs a translator")
    text = model.text_reader(config.pieces)(config.source)
    beam = Beam(beam=config.beam, length_penalty=config.length_penalty)
    tree = watch_beam(model, text, beam, min(3, config.beam))
    save_image(tree.draw(), Path(config.out))
    return tree


@torch.inference_mode()
def watch_beam(model: TextTranslator, text: str, beam: Beam, n_best: int) -> BeamTree:
    """Translate one sentence, and return every step of the search."""
    engine, special, tokenizer = model.decoder.engine, model.decoder.special, model.tokenizer
    room = model.config.max_length - 2
    source = [*tokenizer.start, *model.cut(text, room, tokenizer), tokenizer.eos]
    target = model.target_tokenizer
    vocabulary = Vocabulary(target.decode, lambda token: target.labels([token])[0])
    with engine.runtime.precision():
        step = engine.begin(engine.encode([source]), beam.beam)
        limit = max_target_tokens(len(source), model.config.max_length)
        return watch_search(step, limit, special, beam, n_best, vocabulary, text)


@dataclass(frozen=True)
class Vocabulary:
    """How the tree writes tokens."""

    decode: Callable[[Sequence[int]], str]  # all tokens of a target
    label: Callable[[int], str]  # one token


def watch_search(
    step: Step,
    limit: int,
    special: SpecialIds,
    beam: Beam,
    n_best: int,
    vocabulary: Vocabulary,
    source: str,
) -> BeamTree:
    """Search with any step function, and return every step of the search."""
    watched = WatchedStep(step, special)
    (hypotheses,) = beam_search(watched, [limit], special, beam, n_best)
    endings = (
        Ending(path=h.ids, text=vocabulary.decode(h.ids), log_prob=h.log_prob, score=h.score)
        for h in hypotheses
    )
    return BeamTree(
        source=source,
        width=beam.beam,
        steps=tuple(_steps(watched.calls, special, beam.beam, vocabulary)),
        endings=tuple(endings),
    )


class WatchedStep:
    """A step function that records the prefixes and log-probabilities of every call."""

    def __init__(self, step: Step, special: SpecialIds) -> None:
        self.step = step
        self.suppressed = torch.tensor(list(special.suppressed), dtype=torch.long)
        self.calls: list[tuple[list[TokenPath], Tensor]] = []  # prefixes, log-probabilities (N, V)

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        log_probs = self.step(prefixes, parents)
        shown = log_probs.double().cpu().index_fill(1, self.suppressed, -torch.inf)
        self.calls.append(([tuple(row) for row in prefixes[:, 1:].tolist()], shown))
        return log_probs


def _steps(
    calls: Sequence[tuple[list[TokenPath], Tensor]],
    special: SpecialIds,
    width: int,
    vocabulary: Vocabulary,
) -> Iterator[tuple[Candidate, ...]]:
    """Yield the candidates of each step: as many as the search compares, twice its width."""
    totals: dict[TokenPath, float] = {(): 0.0}
    for number, (prefixes, log_probs) in enumerate(calls, 1):
        continued = set(calls[number][0]) if number < len(calls) else set()
        ranked = _rank_continuations(totals, prefixes, log_probs, 2 * width)

        yield tuple(
            Candidate(
                path=path,
                piece=vocabulary.label(path[-1]),
                log_prob=total,
                status=_status(path, continued, is_end_kept=rank < width, eos=special.eos),
            )
            for rank, (path, total) in enumerate(ranked)
        )
        totals = {path: total for path, total in ranked if path in continued}


def _status(path: TokenPath, continued: set[TokenPath], is_end_kept: bool, eos: int) -> Status:
    if path[-1] == eos:
        return "ended" if is_end_kept else "dropped"
    return "kept" if path in continued else "dropped"


def _rank_continuations(
    totals: dict[TokenPath, float], prefixes: Sequence[TokenPath], log_probs: Tensor, num: int
) -> list[tuple[TokenPath, float]]:
    """Return the most probable continuations of all prefixes, each with its log-probability."""
    best = log_probs.topk(min(num, log_probs.shape[1]))
    rows = {path: row for row, path in enumerate(prefixes) if path in totals}
    paths = [
        ((*path, token), totals[path] + value)
        for path, row in rows.items()
        for token, value in zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
        if value > -torch.inf
    ]
    return sorted(paths, key=lambda entry: -entry[1])[:num]


def _draw_steps(axes: Axes, tree: BeamTree, first: int) -> None:
    """Draw the steps of one row, after the last step of the row above."""
    if first == 0:
        axes.text(0, 0, "start", ha="center", va="center", color=FAINT)
    else:
        for rank, candidate in enumerate(tree.steps[first - 1]):
            if candidate.status == "kept":
                _write_candidate(axes, tree, candidate, (first, -rank))
    for number, step in enumerate(tree.steps[first : first + STEPS_IN_ROW], first + 1):
        axes.text(number, 0.85, f"step {number}", ha="center", color=FAINT)
        before = tree.steps[number - 2] if number > 1 else ()
        ranks = {candidate.path: rank for rank, candidate in enumerate(before)}
        for rank, candidate in enumerate(step):
            parent = -ranks.get(candidate.path[:-1], 0)
            is_best = tree.is_best(candidate)
            axes.plot(
                [number - 0.64, number - 0.36],
                [parent, -rank],
                color=COLOURS[candidate.status],
                linewidth=2.4 if is_best else 0.8,
                zorder=2 if is_best else 1,
            )
            _write_candidate(axes, tree, candidate, (number, -rank))


def _write_candidate(
    axes: Axes, tree: BeamTree, candidate: Candidate, position: tuple[int, int]
) -> None:
    x, y = position
    weight = "bold" if tree.is_best(candidate) else "normal"
    text = FAINT if candidate.status == "dropped" else INK
    name, colour = shorten(readable(candidate.piece), 11), COLOURS[candidate.status]
    axes.text(x, y + 0.04, name, ha="center", va="bottom", color=text, weight=weight, fontsize=8)
    axes.text(x, y - 0.04, _share(candidate), ha="center", va="top", color=colour, fontsize=6.5)


def _share(candidate: Candidate) -> str:
    return f"{100 * math.exp(candidate.log_prob):.2g}%"
