"""The demo's translator: English to French on the built-in pairs, scored, and looked into.

Knows the sizes that fit into half a minute on two CPU cores; each step is done elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.predictor import load
from warmstart.recipes.evaluate import evaluate
from warmstart.recipes.train_translator import TranslatorResult, train_translator
from warmstart.recipes.translate import load_translator
from warmstart.report.attention_figure import draw_head
from warmstart.report.page import Section, figure, table
from warmstart.samples.files import SampleFiles
from warmstart.settings.training import DemoConfig
from warmstart.settings.translation import TrainTranslatorConfig, TranslateConfig
from warmstart.settings.using import EvaluateConfig

STEPS = 250
BATCH_TOKENS = 4_096
LEARNING_RATE = 1e-2
BEAM = 4
SHOWN = 5  # test sentences in the report


@dataclass(frozen=True)
class DemoTranslator:
    """A small translator and what the test said of it."""

    result: TranslatorResult
    scores: dict[str, Any]


def demo_translator(config: DemoConfig, files: SampleFiles, folder: Path) -> DemoTranslator:
    """Train a translator on the built-in pairs and score it on the held-back ones."""
    run = folder / "translator"
    result = train_translator(
        TrainTranslatorConfig(
            source=str(files.train_pairs.english),
            target=str(files.train_pairs.french),
            valid_source=str(files.valid_pairs.english),
            valid_target=str(files.valid_pairs.french),
            out=str(run),
            resume=True,
            preset="tiny",
            steps=STEPS,
            eval_every=STEPS,
            batch_tokens=BATCH_TOKENS,
            learning_rate=LEARNING_RATE,
            average=1,
            samples=2,
            seed=config.seed,
            device=config.device,
            precision=config.precision,
            threads=config.threads,
        )
    )
    scored = evaluate(
        EvaluateConfig(
            run=str(run),
            source=str(files.test_pairs.english),
            target=str(files.test_pairs.french),
            beam=BEAM,
            device=config.device,
            precision=config.precision,
            threads=config.threads,
        )
    )
    return DemoTranslator(result, scored.scores)


def translator_section(config: DemoConfig, found: DemoTranslator, files: SampleFiles) -> Section:
    """Describe the translator: its scores, a few translations, where it looked."""
    sources = files.test_pairs.english.read_text(encoding="utf-8").splitlines()[:SHOWN]
    references = files.test_pairs.french.read_text(encoding="utf-8").splitlines()[:SHOWN]
    run = str(found.result.run)
    device, precision, threads = config.device, config.precision, config.threads
    translator = load_translator(
        TranslateConfig(run=run, beam=BEAM, device=device, precision=precision, threads=threads)
    )
    translated = [best[0].text for best in translator.translate(sources)]
    cross = load(run, device, precision, threads).attention(sources[0], target=translated[0])[
        "cross"
    ]
    bleu, spread = found.scores["bleu"], found.scores["intervals"]["bleu"]
    num_pairs = sum(1 for _ in files.train_pairs.english.open(encoding="utf-8"))
    rows = list(map(list, zip(sources, translated, references, strict=True)))
    return Section(
        title="A translator",
        pieces=[
            f"The same Transformer with a decoder beside it learned English to French from "
            f"{num_pairs:,} pairs in {found.result.elapsed_s:.0f} s. On "
            f"{found.scores['sentences']:,} sentences it had never seen, a beam of {BEAM} reaches "
            f"BLEU {bleu:.1f} (95% interval {spread['low']:.1f} to {spread['high']:.1f}) and chrF "
            f"{found.scores['chrf']:.1f}. The first {SHOWN} of them:",
            table(("source", "translation", "reference"), rows, "lll"),
            figure(
                draw_head(cross, len(cross.weights) - 1, 0),
                "Where each French piece looked in the English sentence: cross-attention of the "
                "last block, first head",
            ),
        ],
    )
