"""The page of the demo: the data, the pretraining, the comparison, a translator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.report.attention_figure import draw_head
from warmstart.report.comparison_page import comparison_sections, reading_section
from warmstart.report.html import Section, bullets, figure, table, write_page
from warmstart.report.training_figure import draw_training
from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import Comparison, Contrast
from warmstart.results.summary import Summary


@dataclass(frozen=True, kw_only=True)
class ReviewFile:
    """One file of built-in reviews."""

    name: str
    num_rows: int
    median_words: float
    longest: int
    num_repeats: int
    labels: Mapping[str, int]  # rows of each; empty for unlabelled text


@dataclass(frozen=True, kw_only=True)
class ReviewData:
    """The built-in reviews."""

    examples: Sequence[str]
    files: Sequence[ReviewFile]
    shared: Sequence[str]  # a line for each pair of files with texts in common


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """The pretrained language model."""

    num_tokens: int
    elapsed_s: float
    perplexity: float
    bits_per_byte: float
    metrics: Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl


@dataclass(frozen=True, kw_only=True)
class TranslatorDemo:
    """A small translator: its scores, some translations, its attention on the first."""

    num_pairs: int
    elapsed_s: float
    beam: int
    scores: Mapping[str, Any]
    sources: Sequence[str]
    translations: Sequence[str]
    references: Sequence[str]
    cross: AttentionMap


@dataclass(frozen=True, kw_only=True)
class DemoPage:
    """Everything the page shows."""

    data: ReviewData
    pretraining: Pretraining
    comparison: Comparison
    summary: Summary
    contrast: Contrast
    translator: TranslatorDemo


def write_demo_page(page: DemoPage, path: Path) -> Path:
    """Write the page of the demo."""
    verdict, *results = comparison_sections(page.comparison, page.summary, page.contrast)
    sections = [
        verdict,
        _data_section(page.data),
        _pretraining_section(page.pretraining),
        *results,
        _translator_section(page.translator),
        reading_section(page.comparison),
    ]
    return write_page("warmstart demo", sections, path)


def _data_section(data: ReviewData) -> Section:
    headers = ("file", "rows", "median words", "longest", "repeats", "labels")
    rows = [
        (
            file.name,
            f"{file.num_rows:,}",
            f"{file.median_words:g}",
            f"{file.longest:,}",
            f"{file.num_repeats:,}",
            ", ".join(f"{name} {count:,}" for name, count in file.labels.items()),
        )
        for file in data.files
    ]
    return Section(
        title="The data",
        pieces=[
            "Short book reviews, written by the grammar that comes with warmstart. The first ones:",
            bullets(data.examples),
            table(headers, rows, left=[5]),
            bullets(data.shared) if data.shared else "No text occurs in two of the files.",
        ],
    )


def _pretraining_section(pretraining: Pretraining) -> Section:
    train = [line for line in pretraining.metrics if "train_loss" in line]
    valid = [line for line in pretraining.metrics if "valid_loss" in line]
    drawing = draw_training(
        [int(line["step"]) for line in train],
        [line["train_loss"] for line in train],
        [(int(line["step"]), line["valid_loss"]) for line in valid],
    )
    return Section(
        title="The pretraining",
        pieces=[
            f"The language model was pretrained on {pretraining.num_tokens:,} tokens of unlabelled "
            f"reviews in {pretraining.elapsed_s:.0f} s. Its validation perplexity is "
            f"{pretraining.perplexity:.1f} ({pretraining.bits_per_byte:.2f} bits per byte).",
            figure(drawing, "Loss of the language model during pretraining."),
        ],
    )


def _translator_section(demo: TranslatorDemo) -> Section:
    bleu, interval = demo.scores["bleu"], demo.scores["intervals"]["bleu"]
    rows = list(zip(demo.sources, demo.translations, demo.references, strict=True))
    return Section(
        title="A translator",
        pieces=[
            f"An encoder-decoder Transformer learned to translate English to French from "
            f"{demo.num_pairs:,} pairs in {demo.elapsed_s:.0f} s. On {demo.scores['sentences']:,} "
            f"held-out sentences, beam search with {demo.beam} hypotheses reaches BLEU {bleu:.1f} "
            f"(95% interval {interval['low']:.1f} to {interval['high']:.1f}) and chrF "
            f"{demo.scores['chrf']:.1f}. The first {len(rows)} of them:",
            table(("source", "translation", "reference"), rows, left=[1, 2]),
            figure(
                draw_head(demo.cross, len(demo.cross.weights) - 1, 0),
                "Cross-attention of the last layer, first head. Each row shows the weights of one "
                "French token; each column is an English token.",
            ),
        ],
    )
