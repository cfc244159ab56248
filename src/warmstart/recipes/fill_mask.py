"""Texts with masked words through a masked language model -> probable words, in order."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from warmstart.data.chunks import chunked
from warmstart.data.corpus import read_input
from warmstart.files import write_lines
from warmstart.formats import one_line
from warmstart.loading import load_on
from warmstart.results.predictions import FilledText
from warmstart.settings.using import FillMaskConfig
from warmstart.textfiles import standard_input

CHUNK = 1024  # texts sorted by length and read together


def fill_mask(config: FillMaskConfig) -> list[FilledText]:
    """Fill the masked words of a file, of standard input or of one text."""
    filled = list(fill_file(config, standard_input()))
    if config.out:
        write_lines(Path(config.out), (one_line(text.line()) for text in filled))
    return filled


def fill_file(config: FillMaskConfig, stream: BinaryIO | None) -> Iterator[FilledText]:
    """Yield every text with the words for its masks."""
    model = load_on(config.run, config)
    readable = model.text_reader(config.pieces)
    first_number = 1
    for chunk in chunked(map(readable, read_input(config, stream)), CHUNK):
        yield from model.fill_mask(chunk, config.top_k, first_number)
        first_number += len(chunk)
