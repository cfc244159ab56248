"""The whole story on built-in data: text, tokenizer, pretraining, comparison, one report.

Knows the sizes that fit into a few minutes on two CPU cores; each step is done elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.recipes.compare import CompareResult, compare
from warmstart.recipes.data import DataReport, report_data
from warmstart.recipes.demo_translator import (
    DemoTranslator,
    demo_translator,
    translator_section,
)
from warmstart.recipes.pretrain import PretrainResult, pretrain
from warmstart.report.background import reading_section
from warmstart.report.page import (
    Section,
    bullets,
    comparison_sections,
    figure,
    table,
    write_page,
)
from warmstart.report.plots import draw_training
from warmstart.samples.files import SampleFiles, SampleSizes, write_samples
from warmstart.settings.training import CompareConfig, DataConfig, DemoConfig, PretrainConfig
from warmstart.training.record import read_metrics

STEPS = 1_000
BATCH_TOKENS = 4_096
LEARNING_RATE = 1e-2  # a model this small learns at a rate that would upset a larger one
SIZES = SampleSizes(train=400, valid=300, test=1_000)
LABELS = ("50", "150", "all")
SEEDS = (0, 1, 2)
EPOCHS = 6
TRIALS = 2


@dataclass(frozen=True)
class DemoResult:
    """Where the demo's pieces are."""

    folder: Path
    report: Path
    base: PretrainResult
    comparison: CompareResult
    translator: DemoTranslator


def demo(config: DemoConfig) -> DemoResult:
    """Run the whole story on built-in reviews and write one report."""
    folder = Path(config.out)
    if folder.exists() and any(folder.iterdir()) and not config.resume:
        raise WarmstartError(
            f"{folder} exists already: add --resume to go on, or choose another -o"
        )
    progress.say("writing the built-in reviews")
    files = write_samples(folder / "data", config.seed, sizes=SIZES)
    data = report_data(
        DataConfig(files=tuple(map(str, (files.unlabelled, files.train, files.valid, files.test))))
    )
    base = pretrain(_pretraining(config, files, folder))
    found = compare(_comparison(config, files, folder))
    translator = demo_translator(config, files, folder)
    sections = comparison_sections(found.comparison, found.summary, found.contrast)
    sections[1:1] = [_data_section(files, data), _pretraining_section(base)]
    sections.append(translator_section(config, translator, files))
    sections.append(reading_section(found.comparison))
    report = write_page("warmstart demo", sections, folder / "report.html")
    return DemoResult(folder, report, base, found, translator)


def _pretraining(config: DemoConfig, files: SampleFiles, folder: Path) -> PretrainConfig:
    return PretrainConfig(
        files=(str(files.unlabelled),),
        out=str(folder / "base"),
        resume=True,
        preset="tiny",
        steps=STEPS,
        batch_tokens=BATCH_TOKENS,
        learning_rate=LEARNING_RATE,
        eval_every=200,
        seed=config.seed,
        device=config.device,
        precision=config.precision,
        threads=config.threads,
    )


def _comparison(config: DemoConfig, files: SampleFiles, folder: Path) -> CompareConfig:
    return CompareConfig(
        from_runs=(str(folder / "base"),),
        train=str(files.train),
        valid=str(files.valid),
        test=str(files.test),
        out=str(folder / "comparison"),
        resume=True,
        labels=LABELS,
        seeds=SEEDS,
        epochs=EPOCHS,
        trials=TRIALS,
        title="The demo: reviews from a built-in world",
        attainable=files.attainable,
        device=config.device,
        precision=config.precision,
        threads=config.threads,
    )


def _data_section(files: SampleFiles, data: DataReport) -> Section:
    rows = [
        [
            Path(report.file).name,
            f"{report.rows:,}",
            f"{report.median:g}",
            f"{report.longest:,}",
            f"{report.repeats:,}",
            ", ".join(f"{name} {count:,}" for name, count in (report.labels or {}).items()),
        ]
        for report in data.files
    ]
    shared = [f"{s.a} and {s.b}: {s.distinct:,} texts" for s in data.shared if s.distinct]
    headers = ("file", "rows", "median words", "longest", "repeats", "labels")
    with files.unlabelled.open(encoding="utf-8") as lines:
        examples = [next(lines).strip() for _ in range(3)]
    return Section(
        title="The data",
        pieces=[
            "Short book reviews from the grammar that comes with warmstart; the first three:",
            bullets(examples),
            table(headers, rows, "lrrrrl"),
            bullets(shared) if shared else "No text stands in two of the files.",
        ],
    )


def _pretraining_section(base: PretrainResult) -> Section:
    metrics = read_metrics(base.run / "metrics.jsonl")
    train = [line for line in metrics if "train_loss" in line]
    valid = [(int(line["step"]), line["valid_loss"]) for line in metrics if "valid_loss" in line]
    drawing = draw_training(
        [int(line["step"]) for line in train], [line["train_loss"] for line in train], valid
    )
    return Section(
        title="The pretraining",
        pieces=[
            f"The base read {base.tokens:,} tokens of unlabelled reviews in {base.elapsed_s:.0f} s "
            f"and ended at a validation perplexity of {base.perplexity:.1f}, "
            f"{base.bits_per_byte:.2f} bits per byte.",
            figure(drawing, "Loss of the language model while it was pretrained"),
        ],
    )
