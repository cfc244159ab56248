"""The commands of translation: call the recipe, print what it says and what to run next.

Recipes are imported inside, so that help appears at once.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from warmstart.cli.options import Command
from warmstart.cli.printing import quoted, refuse_same, say, say_next, write_lines
from warmstart.report.formats import duration
from warmstart.settings.translation import TrainTranslatorConfig, TranslateConfig

if TYPE_CHECKING:
    from warmstart.recipes.translate import Translated


def train_translator(config: TrainTranslatorConfig) -> None:
    """Train an encoder-decoder on sentence pairs."""
    from warmstart.recipes.train_translator import train_translator as run

    result = run(config)
    how = f"mean of the last {result.averaged} validations' weights" * (result.averaged > 1)
    say(
        f"validation BLEU {result.bleu:.2f} (greedy), loss {result.loss:.3f}, "
        f"{how or f'step {result.step:,}'}, in {duration(result.elapsed_s)}"
    )
    say_next(result.run, f"translate {quoted(result.run)} sentences.txt")


def translate(config: TranslateConfig, as_json: bool) -> None:
    """Translate sentences: a line in, a line out."""
    from warmstart.recipes.translate import translate_file

    refuse_same(config.file, config.out)
    found = translate_file(config, sys.stdin.buffer)
    write_lines(_lines(found, config, as_json), config.out)


def _lines(found: "Iterator[Translated]", config: TranslateConfig, as_json: bool) -> Iterator[str]:
    for one in found:
        if as_json:
            best = [asdict(translation) for translation in one.translations]
            yield json.dumps({"source": one.source, "translations": best}, ensure_ascii=False)
        else:
            yield from one.lines(config.scores)


COMMANDS = (
    Command(
        "train-translator",
        TrainTranslatorConfig,
        train_translator,
        "warmstart train-translator --source train.en --target train.de "
        "--valid-source val.en --valid-target val.de -o runs/en-de",
    ),
    Command(
        "translate",
        TranslateConfig,
        translate,
        "warmstart translate runs/en-de sentences.txt --beam 5 -o translations.txt",
        has_json=True,
    ),
)
