"""How cost grows with length, width, depth, vocabulary, corpus, labels and beam, beside theory.

Each panel varies one size and keeps the rest. Training steps are compared with the operations that
`plan` counts in closed form, tokenizing, fine-tuning and search with a straight line. Theory is
drawn through the largest size, where fixed costs matter least: a measured line that is less steep
has fixed costs, one that is steeper grows faster than it must.

    python benchmarks/growth.py -o docs/figures/growth-costs.png
"""

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from measuring import machine

from warmstart.data.corpus import TextSource
from warmstart.data.labelled import Dataset
from warmstart.data.prepare import prepare
from warmstart.data.shards import ShardWriter
from warmstart.decoding.beam import SpecialIds
from warmstart.decoding.engines import fast_engine, translate_ids
from warmstart.model.models import Classifier, Translator
from warmstart.planning.memory import step_flops
from warmstart.progress import silence
from warmstart.report.style import FAINT, styled
from warmstart.runtime import choose_runtime
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.settings.training import Tuning
from warmstart.settings.using import Beam
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.finetuning import Fit
from warmstart.tasks.fitting import build_trainer
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob
from warmstart.tokenization.backends import train_tokenizer
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import train_step

SMALL = ModelConfig(
    vocab_size=1000, width=128, depth=2, heads=4, ffn_width=512, max_length=4096, dropout=0.0
)
LEAST_TIMES, MOST_TIMES = 3, 30
WARM = "#d5521c"
BAND = "from the fastest\nto the slowest time"
Work = Callable[[], object]


@dataclass(frozen=True)
class Point:
    """The cost of one size."""

    size: int
    seconds: float  # the median
    fastest_s: float
    slowest_s: float
    theory: float  # in any unit


@dataclass(frozen=True)
class Panel:
    """What varies, over which sizes, and how to do the work of a size."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Work]
    theory: Callable[[int], float] = float

    def measure(self, seconds: float) -> list[Point]:
        """Take about so many seconds for each size, but do its work three times at least."""
        return [
            Point(size, statistics.median(times), min(times), max(times), self.theory(size))
            for size in self.sizes
            for times in [time_of(self.prepare(size), seconds)]
        ]


def time_of(work: Work, seconds: float) -> list[float]:
    """Return the time of each repetition; the first one only warms up."""
    work()
    times: list[float] = []
    while len(times) < LEAST_TIMES or (sum(times) < seconds and len(times) < MOST_TIMES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return times


def job_of(length: int = 128, rows: int = 8, **changes: int) -> TrainingJob:
    """Return a step of causal pretraining with some sizes changed."""
    return TrainingJob(
        model=replace(SMALL, **changes),
        task="causal",
        length=length,
        rows=rows,
        micro_rows=rows,
        optimizer="adamw",
    )


def step_of(job: TrainingJob) -> Work:
    """Return a whole training step on random text."""
    torch.manual_seed(0)
    task = task_named(job.task)
    model = task.planned_model(job).train()
    objective = task.planned_objective(job, torch.device("cpu"))
    batch = task.random_batch(job, job.rows, torch.Generator().manual_seed(0))
    optimizers = build_optimizers(model, OptimizerSettings("adamw", 1e-4, 0.1))
    runtime = choose_runtime("cpu", "fp32")
    return lambda: train_step(model, objective, [batch], optimizers, 1.0, runtime)


def width_job(width: int) -> TrainingJob:
    """Return a step of a model of another width, with heads of 32 dimensions."""
    return job_of(width=width, heads=width // 32, ffn_width=4 * width)


def vocabulary_job(vocab_size: int) -> TrainingJob:
    """Return a step of a model with another vocabulary."""
    return job_of(vocab_size=vocab_size)


class Corpus:
    """Made-up text of any size, and a tokenizer for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        draw = random.Random(0)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(5000)]
        self.lines = [" ".join(draw.choices(words, k=80)) for _ in range(2000)]
        self.tokenizer = train_tokenizer(self.lines[:400], "bpe", 2000)

    def preparation(self, kilobytes: int) -> Work:
        """Return the work of `pretrain` before its first step: text to token files."""
        file, size = self.folder / f"{kilobytes}.txt", 0
        with file.open("w", encoding="utf-8") as written:
            while size < 1000 * kilobytes:  # numbered, so that no text occurs twice
                size += written.write(f"{size} {self.lines[size % len(self.lines)]}\n\n")
        source, writer = TextSource((file,), "line"), ShardWriter(self.tokenizer)

        def work() -> None:
            with tempfile.TemporaryDirectory() as fresh, silence():
                prepare(source, None, writer, Path(fresh) / "tokens")

        return work


def finetuning(num_labels: int) -> Work:
    """Return one epoch of fine-tuning on texts of 64 tokens."""
    draw = torch.Generator().manual_seed(0)
    texts = torch.randint(5, SMALL.vocab_size, (num_labels, 64), generator=draw).tolist()
    train = Dataset(ids=texts, targets=[row % 2 for row in range(num_labels)])
    shape = replace(SMALL, attention="bidirectional", max_length=64)
    runtime, tuning = choose_runtime("cpu", "fp32"), Tuning(epochs=1)
    labels = {"classes": ["a", "b"]}

    def work() -> None:
        model = Classifier(shape, 2, "mean", 0.1)
        fit = Fit(train, train.subset(range(2)), labels, tuning, 1e-4, 1.0, 0, 1, runtime)
        build_trainer(ClassifyTask(), model, fit).train("training")

    return work


def translation(width: int) -> Work:
    """Return the translation of 16 sentences with a beam of this width."""
    torch.manual_seed(0)
    model = Translator(replace(PRESETS["translator-small"], norm_position="post")).eval()
    with torch.no_grad():
        model.embedding[2] = 0.0  # the end is never likely: every translation has full length
    engine = fast_engine(model, choose_runtime("cpu", "fp32"))
    sources = torch.randint(5, 8000, (16, 20), generator=torch.Generator().manual_seed(0)).tolist()
    special = SpecialIds(0, 2, [0, 1])
    return lambda: translate_ids(engine, sources, [20] * 16, special, Beam(beam=width))


def panels_in(folder: Path, is_smoke: bool) -> list[Panel]:
    """Return the seven panels; a smoke test has the two smallest sizes of each."""
    corpus = Corpus(folder)

    def step(job: Callable[[int], TrainingJob]) -> dict[str, Callable[[int], object]]:
        return {
            "prepare": lambda size: step_of(job(size)),
            "theory": lambda size: step_flops(job(size)),
        }

    panels = [
        Panel("length", "tokens in a row", powers(64, 2048), **step(lambda n: job_of(n, rows=1))),
        Panel("width", "width", powers(32, 1024), **step(width_job)),
        Panel("depth", "blocks", powers(1, 32), **step(lambda n: job_of(depth=n))),
        Panel(
            "vocabulary", "entries", powers(1000, 64_000), **step(lambda n: job_of(vocab_size=n))
        ),
        Panel("corpus", "kB of text", powers(250, 8000), corpus.preparation),
        Panel("labels", "labelled texts", powers(32, 1024), finetuning),
        Panel("beam", "hypotheses", powers(1, 32), translation),
    ]
    return [replace(p, sizes=p.sizes[:2]) for p in panels] if is_smoke else panels


def powers(low: int, high: int) -> tuple[int, ...]:
    """Return sizes from low to high, each twice the one before."""
    return tuple(low << k for k in range(int(math.log2(high // low)) + 1))


def slope(points: list[Point], figure: str) -> float:
    """Return the exponent over the upper half of the sizes, by least squares on logarithms."""
    upper = points[len(points) // 2 :] if len(points) > 3 else points
    sizes = torch.tensor([math.log(point.size) for point in upper])
    costs = torch.tensor([math.log(getattr(point, figure)) for point in upper])
    sizes, costs = sizes - sizes.mean(), costs - costs.mean()
    return float((sizes * costs).sum() / sizes.square().sum())


@styled
def draw(measured: Mapping[str, list[Point]], units: Mapping[str, str]) -> Figure:
    """Draw every panel: measured with its spread, and theory through the largest size."""
    drawing = Figure(figsize=(9.6, 5.2), layout="constrained")
    *grid, corner = drawing.subplots(2, 4).flat
    for axes, (title, points) in zip(grid, measured.items(), strict=True):
        sizes = [point.size for point in points]
        last = points[-1]
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        band = [p.fastest_s for p in points], [p.slowest_s for p in points]
        axes.fill_between(sizes, *band, color=WARM, alpha=0.18, linewidth=0, label=BAND)
        seconds = [point.seconds for point in points]
        axes.plot(sizes, seconds, color=WARM, marker="o", markersize=3, label="measured")
        theory = [last.seconds * point.theory / last.theory for point in points]
        axes.plot(sizes, theory, color=FAINT, linestyle=(0, (2, 2)), linewidth=1, label="theory")
        exponents = [f"{slope(points, name):.2f}" for name in ("seconds", "theory")]
        axes.set_title(f"{title}\nexponent {' (theory '.join(exponents)})", fontsize=8.5)
        axes.set_xlabel(units[title])
        axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
        axes.minorticks_off()
    corner.set_axis_off()
    corner.legend(*grid[0].get_legend_handles_labels(), loc="center", frameon=False)
    drawing.supylabel("seconds", fontsize=8)
    return drawing


def main() -> None:
    """Measure every panel, print the exponents, and write the figure and its numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("growth-costs.png"))
    parser.add_argument("--seconds", type=float, default=4.0, help="for each size, about")
    parser.add_argument("--smoke", action="store_true", help="two sizes of each panel")
    given = parser.parse_args()
    began, measured, units = time.perf_counter(), {}, {}
    print("| what grows | sizes | seconds | exponent | in theory |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for panel in panels_in(Path(folder), given.smoke):
            points = measured[panel.title] = panel.measure(given.seconds)
            units[panel.title] = panel.unit
            ends = points[0], points[-1]
            cells = (
                " to ".join(f"{point.size:,}" for point in ends),
                " to ".join(f"{point.seconds:.3g}" for point in ends),
                *(f"{slope(points, name):.2f}" for name in ("seconds", "theory")),
            )
            print(f"| {panel.title} ({panel.unit}) | {' | '.join(cells)} |", flush=True)
    draw(measured, units).savefig(given.out)
    rows = {title: [asdict(point) for point in points] for title, points in measured.items()}
    numbers = {"machine": machine(), "panels": rows}
    given.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"{time.perf_counter() - began:.0f} s; wrote {given.out} and its numbers beside it")


if __name__ == "__main__":
    main()
