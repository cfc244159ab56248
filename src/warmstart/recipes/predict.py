"""Files and prompts through a trained model.

Knows nothing about training; streams, a line in and a line out.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from warmstart.data.corpus import read_texts
from warmstart.data.labelled import PAIR, has_named_column, read_text_pairs
from warmstart.decoding.sample import Sampling
from warmstart.files import write_lines
from warmstart.predictor import Prediction, Predictor, load
from warmstart.recipes.reading import reader
from warmstart.settings.using import GenerateConfig, PredictConfig
from warmstart.textfiles import file_or_stream, format_of

CHUNK = 1024  # texts sorted by length and labelled together


def predict_file(config: PredictConfig, standard_input: BinaryIO) -> Iterator[Prediction]:
    """Yield a prediction for every text, in order."""
    predictor = load(config.run, config.device, config.precision, config.threads)
    readable = reader(config.run, predictor.tokenizer, config.pieces)
    source = file_or_stream(config.file, standard_input)
    columns = _pair_columns(config, predictor, source)
    if columns is None:
        texts = read_texts(source, config.columns)
        while chunk := list(islice(texts, CHUNK)):
            yield from predictor.predict(list(map(readable, chunk)))
        return
    pairs = read_text_pairs(source, columns)
    while some := list(islice(pairs, CHUNK)):
        first, second = zip(*some, strict=True)
        yield from predictor.predict(list(map(readable, first)), list(map(readable, second)))


def predict(config: PredictConfig) -> list[Prediction]:
    """Label the lines of a file, or with no file those of standard input."""
    found = list(predict_file(config, sys.stdin.buffer))
    if config.out:
        write_lines(Path(config.out), (one.label for one in found))
    return found


def _pair_columns(
    config: PredictConfig, predictor: Predictor, source: Path | BinaryIO
) -> tuple[str, ...] | None:
    """Return the columns of pairs: named, or usual where the classifier reads pairs; else None."""
    if any(column.split("=")[0].strip() == "text2" for column in config.columns):
        return config.columns
    if config.columns != PredictConfig.columns:
        return None
    reads_pairs = predictor.reads_pairs
    if reads_pairs is None and isinstance(source, Path) and format_of(source) != "lines":
        reads_pairs = has_named_column(source, "text2")
    return PAIR if reads_pairs else None


def generate(config: GenerateConfig) -> list[str]:
    """Write texts with a causal language model."""
    texts = list(generate_texts(config))
    if config.out:
        write_lines(Path(config.out), texts)
    return texts


def generate_texts(config: GenerateConfig) -> Iterator[str]:
    """Yield as many texts as asked for, each from a seed of its own."""
    predictor = load(config.run, config.device, config.precision, config.threads)
    sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
    for number in range(config.num):
        yield predictor.generate(config.prompt, config.max_tokens, sampling, config.seed + number)
