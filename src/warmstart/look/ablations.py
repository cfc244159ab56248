"""Small models without one of their parts, and what each part is for."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from warmstart import progress
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import WordPairs
from warmstart.formats import percent
from warmstart.look.commands import LookAblationsConfig
from warmstart.recipes.prepare_files import make_tokenizer
from warmstart.recipes.pretrain import pretrain
from warmstart.report.html import Drawn, Table
from warmstart.report.style import INK, WIDTH, EndLabel, save_image, styled, write_end_labels
from warmstart.runs.facts import read_metrics
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.model import Ablation
from warmstart.settings.training import PretrainConfig
from warmstart.settings.using import TokenizerConfig
from warmstart.tasks.registry import load_on, pretraining_task

SIZES = SampleSizes(
    unlabelled=4_000, train=1, valid=1, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
VOCAB_SIZE = 600
BATCH_TOKENS = 1_024
LEARNING_RATE = 1e-2
NUM_VALIDATIONS = 5  # in each training
PROMPTS = ("The", "This", "I", "A")
TEMPERATURE = 0.7
COLOURS = (INK, "#d5521c", "#2166ac", "#2a9d8f", "#efa02b", "#9a4f96", "#757575")
BAND = 0.15  # opacity of the range over seeds


@dataclass(frozen=True, kw_only=True)
class AblatedTraining:
    """One training with a part left out."""

    part: str  # that was left out; "nothing": the whole model
    seed: int
    steps: tuple[int, ...]
    losses: tuple[float, ...]  # on validation, after each of `steps`
    written: str = ""  # text that the model generated; empty: it cannot
    known_pairs: float | None = None  # share of its word pairs that the training text has
    failure: str | None = None  # why it ended early


@dataclass(frozen=True, kw_only=True)
class Variant:
    """All trainings with the same part left out, one for each seed."""

    part: str  # that was left out; "nothing": the whole model
    trainings: tuple[AblatedTraining, ...]

    @property
    def name(self) -> str:
        return "whole" if self.part == "nothing" else f"without {self.part}"

    @cached_property
    def finished(self) -> list[AblatedTraining]:
        return [training for training in self.trainings if training.failure is None]

    @property
    def perplexities(self) -> list[float]:
        """Return the validation perplexity that each finished training ended with."""
        return [math.exp(training.losses[-1]) for training in self.finished]

    @property
    def known_pairs(self) -> list[float]:
        """Return the share of known word pairs in what each finished model wrote."""
        shares = (training.known_pairs for training in self.finished)
        return [share for share in shares if share is not None]


@dataclass(frozen=True)
class Ablations(Drawn):
    """What each variant reached."""

    title: str
    variants: tuple[Variant, ...]

    def table(self) -> Table:
        """Return headers, and a row for each variant."""
        rows = [
            (
                variant.name,
                *_mean_and_range(variant.perplexities, "{:,.1f}".format),
                *_mean_and_range(variant.known_pairs, percent),
            )
            for variant in self.variants
        ]
        measures = ("validation perplexity", "over seeds", "known word pairs", "over seeds")
        return ("model", *measures), rows

    def sentences(self) -> list[str]:
        """Say which trainings ended early, and what a model of each variant writes first."""
        failures = [
            f"{variant.name}, seed {training.seed}: {training.failure}"
            for variant in self.variants
            for training in variant.trainings
            if training.failure
        ]
        texts = [
            f"{variant.name} writes: {variant.finished[0].written.splitlines()[0]}"
            for variant in self.variants
            if variant.finished and variant.finished[0].written
        ]
        return failures + texts

    @styled
    def draw(self) -> Figure:
        """Draw perplexity by step and, for models that write, how well they write."""
        has_text = any(variant.known_pairs for variant in self.variants)
        drawing = Figure(figsize=(WIDTH + 1.4, 6.2 if has_text else 3.8), layout="constrained")
        grid = drawing.subplots(
            1 + has_text, 1, squeeze=False, height_ratios=[3, 2][: 1 + has_text]
        )
        drawing.suptitle(self.title)
        _draw_losses(grid[0][0], self.variants, share=0.6 if has_text else 1.0)
        if has_text:
            _draw_pairs(grid[1][0], self.variants)
        return drawing


def look_ablations(config: LookAblationsConfig) -> Ablations:
    """Train the whole model and each broken one on the built-in text, and show them together."""
    parts: list[Ablation] = ["nothing", *(part for part in config.parts if part != "nothing")]
    with TemporaryDirectory(prefix="warmstart-ablations-") as name:
        jobs = [_job(config, Path(name), part, seed) for part in parts for seed in config.seeds]
        for job in jobs:
            pretraining_task(job.objective).check(job)
        with progress.silence():
            text = _write_text(Path(name))
        pairs = WordPairs(text.read_text(encoding="utf-8").splitlines())
        trainings = []
        with progress.bar("training without one part", len(jobs), "model") as bar:
            for job in jobs:
                with progress.silence():
                    trainings.append(_train(job, pairs))
                bar.advance(1, job.ablate)
    title = f"What each part is for: {config.objective} models after {config.steps} steps"
    ablations = Ablations(title, variants_of(trainings))
    save_image(ablations.draw(), Path(config.out))
    return ablations


def _write_text(folder: Path) -> Path:
    """Write the text and the tokenizer that all trainings share; return the file of the text."""
    text = write_samples(folder / "data", sizes=SIZES).unlabelled
    out = str(folder / "tokenizer")
    make_tokenizer(TokenizerConfig(files=(str(text),), out=out, vocab_size=VOCAB_SIZE))
    return text


def _job(config: LookAblationsConfig, folder: Path, part: Ablation, seed: int) -> PretrainConfig:
    is_masked = pretraining_task(config.objective).attention == "bidirectional"
    return PretrainConfig(
        document_loss=0.0 if is_masked else None,  # the plain objective, on every machine
        semantic_start=False if is_masked else None,
        files=(str(folder / "data" / "unlabelled.txt"),),
        out=str(folder / f"{part}-{seed}"),
        tokenizer=str(folder / "tokenizer"),
        objective=config.objective,
        preset="tiny",
        depth=config.depth,
        heads=1,  # the wider a head, the more it needs the scale
        ablate=part,
        steps=config.steps,
        batch_tokens=BATCH_TOKENS,
        learning_rate=LEARNING_RATE,
        eval_every=max(1, config.steps // NUM_VALIDATIONS),
        seed=seed,
        device=config.device,
        precision=config.precision,
        threads=config.threads,
    )


def _train(job: PretrainConfig, pairs: WordPairs) -> AblatedTraining:
    failure, written = None, ""
    try:
        pretrain(job)
        written = _generate(job)
    except DivergedError as error:
        failure = str(error)
    metrics = read_metrics(Path(job.out) / "metrics.jsonl")
    points = [(int(line["step"]), line["valid_loss"]) for line in metrics if "valid_loss" in line]
    return AblatedTraining(
        part=job.ablate,
        seed=job.seed,
        steps=tuple(step for step, _ in points),
        losses=tuple(loss for _, loss in points),
        written=written,
        known_pairs=pairs.known_share(written) if written else None,
        failure=failure,
    )


def _generate(job: PretrainConfig) -> str:
    """Return what a model writes after each prompt; a model that cannot generate writes nothing."""
    if not pretraining_task(job.objective).can_generate:
        return ""
    model = load_on(job.out, job)
    texts = [
        model.generate(prompt, 40, temperature=TEMPERATURE, seed=job.seed) for prompt in PROMPTS
    ]
    return "\n".join(texts)


def _draw_losses(axes: Axes, variants: Sequence[Variant], share: float) -> None:
    axes.set_yscale("log")
    labels, drawn = [], []
    for variant, colour in zip(variants, COLOURS, strict=False):
        if not variant.finished:
            continue
        steps = variant.finished[0].steps
        values = np.exp([training.losses for training in variant.finished])  # (seeds, steps)
        means = values.mean(0)
        drawn += [*values.flatten()]
        axes.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=BAND, lw=0)
        axes.plot(steps, means, color=colour, marker="o", markersize=3)
        labels.append(EndLabel(text=variant.name, colour=colour, x=steps[-1], y=means[-1]))
    axes.set_xlabel("training steps")
    axes.set_ylabel("validation perplexity")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if drawn:  # limits decide where labels stand
        axes.set_ylim(min(drawn) / 1.3, max(drawn) * 1.3)
        axes.set_xlim(0, max(label.x for label in labels))
        write_end_labels(axes, labels, share)


def _draw_pairs(axes: Axes, variants: Sequence[Variant]) -> None:
    """Draw one dot for each seed and a line at their mean."""
    written = [
        (variant, colour)
        for variant, colour in zip(variants, COLOURS, strict=False)
        if variant.known_pairs
    ]
    for row, (variant, colour) in enumerate(written):
        shares = variant.known_pairs
        axes.plot(shares, [row] * len(shares), "o", color=colour, markersize=4, alpha=0.6)
        axes.plot([fmean(shares)] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=2)
    axes.set_yticks(range(len(written)), [variant.name for variant, _ in written])
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f}%")
    axes.set_xlabel("word pairs in generated text that also occur in the training text")


def _mean_and_range(values: Sequence[float], show: Callable[[float], str]) -> tuple[str, str]:
    if not values:
        return "–", "–"
    return show(fmean(values)), f"{show(min(values))} to {show(max(values))}"


def variants_of(trainings: Sequence[AblatedTraining]) -> tuple[Variant, ...]:
    """Group trainings by the part left out, in the order of their first occurrence."""
    parts = dict.fromkeys(training.part for training in trainings)
    return tuple(
        Variant(part=part, trainings=tuple(t for t in trainings if t.part == part))
        for part in parts
    )
