"""The commands of translation: call the recipe, print the result and the next command."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from warmstart.cli.options import Command
from warmstart.cli.printing import quoted, refuse_same, say, say_next, write_lines
from warmstart.formats import duration
from warmstart.settings.translating import TrainTranslatorConfig, TranslateConfig

if TYPE_CHECKING:
    from warmstart.recipes.translate import Translated


def train_translator(config: TrainTranslatorConfig) -> None:
    """Train an encoder-decoder on sentence pairs."""
    from warmstart.recipes.train_translator import train_translator as run

    result = run(config)
    how = f"mean of the last {result.num_averaged} validations' weights" * (result.num_averaged > 1)
    say(
        f"validation BLEU {result.bleu:.2f} (greedy), loss {result.loss:.3f}, "
        f"{how or f'step {result.step:,}'}, in {duration(result.elapsed_s)}"
    )
    say_next(result.run, f"translate {quoted(result.run)} sentences.txt")


def translate(config: TranslateConfig, as_json: bool) -> None:
    """Translate sentences: one line in, one line out."""
    from warmstart.recipes.translate import translate_file

    refuse_same(config.file, config.out)
    translated = translate_file(config, sys.stdin.buffer)
    write_lines(_lines(translated, config, as_json), config.out)


def _lines(
    translated: "Iterator[Translated]", config: TranslateConfig, as_json: bool
) -> Iterator[str]:
    for sentence in translated:
        if as_json:
            best = [asdict(translation) for translation in sentence.translations]
            yield json.dumps({"source": sentence.source, "translations": best}, ensure_ascii=False)
        else:
            yield from sentence.lines(config.scores)


COMMANDS = (
    Command(
        "train-translator",
        "Train",
        train_translator,
        "--source train.en --target train.de --valid-source val.en --valid-target val.de -o en-de",
    ),
    Command("translate", "Use", translate, "runs/en-de sentences.txt --beam 5 -o translations.txt"),
)
