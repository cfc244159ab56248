"""A translator and sentences -> translations, in order and in bounded memory.

Knows nothing about training.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from warmstart import progress
from warmstart.data.corpus import read_texts
from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import fast_engine
from warmstart.errors import WarmstartError
from warmstart.files import write_lines
from warmstart.inference.translator import Translating, Translation
from warmstart.model.models import Translator
from warmstart.predictor import build_model
from warmstart.recipes.tongues import read_tongues
from warmstart.report.formats import counted
from warmstart.runs.saved import IN_WORDS, read_source
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.translation import TranslateConfig
from warmstart.settings.using import Search
from warmstart.textfiles import file_or_stream

BATCH_TOKENS = {"cpu": 4096, "cuda": 16_384}  # decoded together: a GPU needs many to be busy
USUAL = 5  # the beam they hold for; a wider one has more rows of each
WINDOW = 2048  # sentences read together, so that those of similar length meet


@dataclass(frozen=True)
class Translated:
    """One sentence with its translations, best first."""

    source: str
    translations: list[Translation]

    def lines(self, has_scores: bool) -> list[str]:
        """Return a line for each translation, perhaps behind its score."""
        return [f"{one.score:.4f}\t" * has_scores + one.text for one in self.translations]


def open_translator(
    run: str, runtime: Runtime, search: Search, num_best: int = 1, splits_overlong: bool = True
) -> Translating:
    """Load a translator for use."""
    source = read_source(run)
    if source.kind != "translator":
        raise WarmstartError(
            f"{run} is {IN_WORDS[source.kind]}; to translate it takes a translator, "
            "as `warmstart train-translator` makes"
        )
    model = build_model(source)
    assert isinstance(model, Translator)
    model.to(runtime.device).eval()
    tongues = read_tongues(source.run)
    return Translating(
        fast_engine(model, runtime),
        tongues.source,
        tongues.target,
        Beam(width=search.beam, length_penalty=search.length_penalty, num_best=num_best),
        search.max_ratio,
        search.batch_tokens or BATCH_TOKENS[runtime.device.type] * USUAL // max(USUAL, search.beam),
        splits_overlong,
    )


def translate_file(config: TranslateConfig, standard_input: BinaryIO) -> Iterator[Translated]:
    """Translate the lines of a file or of standard input."""
    source = file_or_stream(config.file, standard_input)
    is_typed = source is standard_input and standard_input.isatty()
    lines = read_texts(source, config.columns)
    return _translated(load_translator(config), lines, 1 if is_typed else WINDOW)


def translate(config: TranslateConfig) -> list[Translated]:
    """Translate the lines of a file, or with no file those of standard input."""
    found = list(translate_file(config, sys.stdin.buffer))
    if config.out:
        write_lines(Path(config.out), (line for one in found for line in one.lines(config.scores)))
    return found


def load_translator(config: TranslateConfig) -> Translating:
    """Load a translator for sentences at hand: its `translate` takes a list of them."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    return open_translator(
        config.run, runtime, config, config.n_best, splits_overlong=config.overlong == "split"
    )


def _translated(
    translating: Translating, lines: Iterator[str], window: int
) -> Iterator[Translated]:
    first, overlong = 1, 0
    while texts := list(islice(lines, window)):
        for text, found in zip(texts, translating.translate(texts, first), strict=True):
            overlong += found[0].parts > 1
            yield Translated(text, found)
        first += len(texts)
    say_overlong(overlong)


def say_overlong(num: int) -> None:
    """Tell of sentences that were longer than the model reads."""
    if num:
        progress.say(f"{counted(num, 'sentence')} longer than the model reads: translated in parts")
