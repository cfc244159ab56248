"""Texts through a fine-tuned model -> labels, in order."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from warmstart.data.chunks import chunked
from warmstart.data.corpus import read_texts
from warmstart.data.labelled import PAIR, has_named_column, read_text_pairs
from warmstart.files import write_lines
from warmstart.inference.text_model import TextModel
from warmstart.loading import load_on
from warmstart.settings.using import PredictConfig
from warmstart.textfiles import file_or_stream, format_of
from warmstart.tokenization.pieces import text_reader

CHUNK = 1024  # texts sorted by length and labelled together


def predict_file(config: PredictConfig, standard_input: BinaryIO) -> Iterator[Any]:
    """Yield a prediction for every text, in order."""
    model = load_on(config.run, config)
    readable = text_reader(model.tokenizer, config.pieces, config.run)
    source = file_or_stream(config.file, standard_input)
    columns = _pair_columns(config, model, source)
    if columns is None:
        for texts in chunked(read_texts(source, config.columns), CHUNK):
            yield from model.predict(list(map(readable, texts)))
        return
    for pairs in chunked(read_text_pairs(source, columns), CHUNK):
        first, second = zip(*pairs, strict=True)
        yield from model.predict(list(map(readable, first)), list(map(readable, second)))


def predict(config: PredictConfig) -> list[Any]:
    """Label the lines of a file, or of standard input when there is none."""
    predictions = list(predict_file(config, sys.stdin.buffer))
    if config.out:
        write_lines(Path(config.out), (prediction.label for prediction in predictions))
    return predictions


def _pair_columns(
    config: PredictConfig, model: TextModel, source: Path | BinaryIO
) -> tuple[str, ...] | None:
    """Return the columns of pairs: named, or usual where the model reads pairs; else None."""
    if any(column.split("=")[0].strip() == "text2" for column in config.columns):
        return config.columns
    if config.columns != PredictConfig.columns:
        return None
    reads_pairs = model.reads_pairs
    if reads_pairs is None and isinstance(source, Path) and format_of(source) != "lines":
        reads_pairs = has_named_column(source, "text2")
    return PAIR if reads_pairs else None
