"""Run every step on built-in data: pretraining, comparison, translation, one report.

The sizes take a few minutes on two CPU cores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from warmstart import progress
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import CompareResult, compare
from warmstart.comparison.report import comparison_sections, reading_section
from warmstart.comparison.results import AttentionExample, Comparison, Contrast
from warmstart.comparison.summary import Summary
from warmstart.data.copies import DataReport
from warmstart.errors import WarmstartError
from warmstart.files import make_folder, write_json
from warmstart.look.attention import draw_head
from warmstart.model.attention_weights import AttentionMap
from warmstart.recipes.evaluate import evaluate
from warmstart.recipes.prepare_files import report_data
from warmstart.recipes.pretrain import PretrainResult, pretrain
from warmstart.recipes.train_translator import TranslatorResult, train_translator
from warmstart.report.html import Section, bullets, figure, table, write_page
from warmstart.report.training_figure import draw_training
from warmstart.runs.facts import read_metrics
from warmstart.runtime import choose_runtime, num_cores
from warmstart.samples.samples import SampleFiles, SampleSizes, write_samples
from warmstart.settings.shared import Machine
from warmstart.settings.training import PretrainConfig, TrainTranslatorConfig
from warmstart.settings.using import DataConfig, DemoConfig, EvaluateConfig
from warmstart.tasks.registry import load_on
from warmstart.version import package_version

SIZES = SampleSizes(train=400, valid=300, test=1_000)
BATCH_TOKENS = 4_096
STEPS = 400  # of pretraining
LABELS = ("50", "150", "all")
SEEDS = (0, 1, 2, 3, 4)
EPOCHS = 6
TRANSLATOR_STEPS = 250
TRANSLATOR_RATE = 1e-2  # suits a model this small; a larger model would diverge
BEAM = 4
NUM_REVIEWS = 3  # shown in the report
NUM_TRANSLATIONS = 5  # shown in the report
MOST_PROCESSES = 4  # each holds a copy of PyTorch
MARK = "demo.json"  # tells the folder of a demo from others
Job = TypeVar("Job", bound=Machine)


@dataclass(frozen=True)
class DemoResult:
    """The results of each step, and the report."""

    folder: Path
    report: Path
    base: PretrainResult
    comparison: CompareResult
    translator: TranslatorResult
    translator_scores: dict[str, Any]


def demo(config: DemoConfig) -> DemoResult:
    """Run every step on built-in reviews and write one report."""
    folder = Path(config.out)
    _open_folder(folder, config.resume)
    progress.say("writing the built-in reviews")
    files = write_samples(folder / "data", config.seed, sizes=SIZES)
    texts = (files.unlabelled, files.train, files.valid, files.test)
    data = report_data(DataConfig(files=tuple(map(str, texts))))
    base = pretrain(_on_machine(config, _pretrain_config(config, files, folder)))
    compared = compare(_on_machine(config, _compare_config(config, files, folder)))
    translator = train_translator(_on_machine(config, _translator_config(config, files, folder)))
    evaluation = EvaluateConfig(
        run=str(translator.run),
        source=str(files.test_pairs.english),
        target=str(files.test_pairs.french),
        beam=BEAM,
    )
    scores = evaluate(_on_machine(config, evaluation)).scores
    page = DemoPage(
        examples=_lines(files.unlabelled)[:NUM_REVIEWS],
        data=data,
        pretraining=base,
        metrics=read_metrics(base.run / "metrics.jsonl"),
        comparison=compared.comparison,
        summary=compared.summary,
        contrast=compared.contrast,
        attention=compared.attention,
        translator=_translator_demo(config, files, translator, scores),
    )
    report = write_demo_page(page, folder / "report.html")
    return DemoResult(folder, report, base, compared, translator, scores)


def _open_folder(folder: Path, resume: bool) -> None:
    """Create and mark the folder of a demo; refuse one that holds anything else."""
    if folder.exists() and not folder.is_dir():
        raise WarmstartError(f"-o {folder} is a file; name a folder")
    if folder.exists() and any(folder.iterdir()):
        if not resume:
            raise WarmstartError(
                f"{folder} exists already: add --resume to continue, or choose another -o"
            )
        if not (folder / MARK).exists():
            raise WarmstartError(
                f"{folder} is not the folder of a demo, so nothing there can be resumed; choose "
                "another -o"
            )
    make_folder(folder)
    write_json(folder / MARK, {"command": "demo", "warmstart": package_version()})


def _on_machine(config: DemoConfig, job: Job) -> Job:
    return replace(job, device=config.device, precision=config.precision, threads=config.threads)


def _pretrain_config(config: DemoConfig, files: SampleFiles, folder: Path) -> PretrainConfig:
    return PretrainConfig(
        files=(str(files.unlabelled),),
        out=str(folder / "base"),
        resume=True,
        objective="masked",
        preset="mini",  # with its losses, the default without a GPU
        document_loss=1.0,
        semantic_start=True,
        steps=STEPS,
        batch_tokens=BATCH_TOKENS,
        eval_every=STEPS // 5,
        seed=config.seed,
    )


def _compare_config(config: DemoConfig, files: SampleFiles, folder: Path) -> CompareConfig:
    return CompareConfig(
        from_runs=(str(folder / "base"),),
        train=(str(files.train),),
        valid=str(files.valid),
        test=str(files.test),
        out=str(folder / "comparison"),
        resume=True,
        labels=LABELS,
        seeds=SEEDS,
        epochs=EPOCHS,
        trials=1,
        processes=_processes(config),
        title="The demo: reviews from a built-in world",
        attainable=files.attainable,
    )


def _processes(config: DemoConfig) -> str | None:
    """Return how many models are trained at a time: a small one uses few cores well."""
    if config.threads or choose_runtime(config.device).device.type != "cpu":
        return None
    return str(min(MOST_PROCESSES, num_cores()))


def _translator_config(
    config: DemoConfig, files: SampleFiles, folder: Path
) -> TrainTranslatorConfig:
    return TrainTranslatorConfig(
        source=str(files.train_pairs.english),
        target=str(files.train_pairs.french),
        valid_source=str(files.valid_pairs.english),
        valid_target=str(files.valid_pairs.french),
        out=str(folder / "translator"),
        resume=True,
        preset="tiny",
        steps=TRANSLATOR_STEPS,
        eval_every=TRANSLATOR_STEPS,
        batch_tokens=BATCH_TOKENS,
        learning_rate=TRANSLATOR_RATE,
        average=1,
        samples=2,
        seed=config.seed,
    )


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


def _translator_demo(
    config: DemoConfig, files: SampleFiles, result: TranslatorResult, scores: dict[str, Any]
) -> TranslatorDemo:
    """Translate the first test sentences, and read the attention of the first."""
    sources = _lines(files.test_pairs.english)[:NUM_TRANSLATIONS]
    translator = load_on(result.run, config)
    translations = [best[0].text for best in translator.translate(sources, beam=BEAM)]
    references = _lines(files.test_pairs.french)[:NUM_TRANSLATIONS]
    return TranslatorDemo(
        num_pairs=len(_lines(files.train_pairs.english)),
        elapsed_s=result.elapsed_s,
        beam=BEAM,
        scores=scores,
        sources=sources,
        translations=translations,
        references=references,
        cross=translator.attention(sources[0], target=translations[0] or references[0])["cross"],
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True, kw_only=True)
class DemoPage:
    """Everything the page shows."""

    examples: Sequence[str]  # built-in reviews
    data: DataReport
    pretraining: PretrainResult
    metrics: Sequence[Mapping[str, Any]]  # the lines of its metrics.jsonl
    comparison: Comparison
    summary: Summary
    contrast: Contrast | None
    attention: AttentionExample | None
    translator: TranslatorDemo


def write_demo_page(page: DemoPage, path: Path) -> Path:
    """Write the page of the demo."""
    verdict, *results = comparison_sections(
        page.comparison, page.summary, page.contrast, page.attention
    )
    sections = [
        verdict,
        _data_section(page),
        _pretraining_section(page),
        *results,
        _translator_section(page.translator),
        reading_section(page.comparison),
    ]
    return write_page("warmstart demo", sections, path)


def _data_section(page: DemoPage) -> Section:
    headers = ("file", "rows", "median words", "longest", "repeats", "labels")
    rows = [
        (
            Path(file.file).name,
            f"{file.rows:,}",
            f"{file.median:g}",
            f"{file.longest:,}",
            f"{file.repeats:,}",
            ", ".join(f"{name} {count:,}" for name, count in (file.labels or {}).items()),
        )
        for file in page.data.files
    ]
    shared = [f"{s.a} and {s.b}: {s.distinct:,} texts" for s in page.data.shared if s.distinct]
    return Section(
        title="The data",
        pieces=[
            "Short book reviews, generated by the grammar that comes with warmstart. The first:",
            bullets(page.examples),
            table(headers, rows, left=[5]),
            bullets(shared) if shared else "No text occurs word for word in two of the files.",
        ],
    )


def _pretraining_section(page: DemoPage) -> Section:
    model = page.pretraining
    return Section(
        title="The pretraining",
        pieces=[
            f"The language model was pretrained on {model.tokens:,} tokens of unlabelled reviews "
            f"in {model.elapsed_s:.0f} s; {model.summary}.",
            figure(draw_training(page.metrics), "Loss of the language model during pretraining."),
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
