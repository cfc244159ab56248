"""Sentences through a translator -> translations, in order and in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from warmstart.data.chunks import chunked
from warmstart.data.corpus import read_input
from warmstart.files import write_lines
from warmstart.formats import one_line
from warmstart.inference.translator import Translation
from warmstart.loading import load_on
from warmstart.settings.translating import TranslateConfig
from warmstart.tasks.translation import report_overlong
from warmstart.textfiles import standard_input

WINDOW = 2048  # sentences read together, so that those of similar length share a batch


@dataclass(frozen=True)
class Translated:
    """One sentence with its translations, best first."""

    source: str
    translations: list[Translation]

    def lines(self, has_scores: bool) -> list[str]:
        """Return a line for each translation, after its score if asked."""
        return [
            f"{translation.score:.4f}\t" * has_scores + one_line(translation.text)
            for translation in self.translations
        ]


def translate(config: TranslateConfig) -> list[Translated]:
    """Translate the lines of a file, or of standard input when there is none."""
    results = list(translate_file(config, standard_input()))
    if config.out:
        lines = (line for result in results for line in result.lines(config.scores))
        write_lines(Path(config.out), lines)
    return results


def translate_file(config: TranslateConfig, stream: BinaryIO | None) -> Iterator[Translated]:
    """Yield the translations of each line, in order."""
    is_typed = config.file in (None, "-") and stream is not None and stream.isatty()
    sentences = read_input(config, stream)
    model = load_on(config.run, config)
    first_number, num_overlong = 1, 0
    for texts in chunked(sentences, 1 if is_typed else WINDOW):
        translations = model.translate(
            texts,
            beam=config.beam,
            length_penalty=config.length_penalty,
            n_best=config.n_best,
            max_ratio=config.max_ratio,
            batch_tokens=config.batch_tokens,
            overlong=config.overlong,
            first_number=first_number,
        )
        for text, best in zip(texts, translations, strict=True):
            num_overlong += best[0].num_parts > 1
            yield Translated(text, best)
        first_number += len(texts)
    report_overlong(num_overlong)
