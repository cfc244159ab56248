"""Texts through any model -> vectors, streamed: a few texts at a time, in order.

Knows nothing about what the vectors are for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.batching.encode import truncation_words
from warmstart.data.corpus import read_texts
from warmstart.data.vector_files import TextVectors, check_name, writing
from warmstart.errors import WarmstartError
from warmstart.insight.word_context import compare_word, write_word_report
from warmstart.predictor import Predictor, load
from warmstart.recipes.reading import reader
from warmstart.report.context import WordReport
from warmstart.settings.embedding import EmbedConfig
from warmstart.textfiles import file_or_stream

CHUNK = 1024  # texts sorted by length and read together


@dataclass(frozen=True)
class EmbedResult:
    """What texts were turned into."""

    out: Path | None  # the file written
    num_texts: int
    num_vectors: int
    width: int
    num_truncated: int
    vectors: NDArray[np.float32] | None = None  # (num_vectors, width) when no file was asked for
    word: WordReport | None = None  # with --word


def embed(config: EmbedConfig, standard_input: BinaryIO | None = None) -> EmbedResult:
    """Turn texts into vectors: written to a file, or returned when none is named."""
    if config.word is not None:
        return _compare_word(config, standard_input)
    if config.out:
        check_name(Path(config.out), config.tokens)
    stream = EmbedStream(config, standard_input)
    if config.out:
        with writing(Path(config.out), stream.width, config.tokens) as add:
            for chunk in stream.chunks():
                add(chunk)
        return stream.result(Path(config.out))
    kept = [np.atleast_2d(one.vectors) for chunk in stream.chunks() for one in chunk]
    empty = np.zeros((0, stream.width), np.float32)
    return stream.result(None, np.concatenate(kept) if kept else empty)


def embed_lines(config: EmbedConfig, standard_input: BinaryIO) -> Iterator[str]:
    """Yield a line of JSON for every text."""
    for chunk in EmbedStream(config, standard_input).chunks():
        for one in chunk:
            yield one.to_json()


class EmbedStream:
    """Texts on their way through a model, counted."""

    def __init__(self, config: EmbedConfig, standard_input: BinaryIO | None) -> None:
        self.config = config
        self.predictor, self.texts = open_texts(config, standard_input)
        self.width = self.predictor.source.model.width
        self.num_texts = self.num_vectors = self.num_truncated = 0

    def chunks(self) -> Iterator[list[TextVectors]]:
        """Yield the texts in order, some at a time; at the end say how many were cut."""
        with progress.bar("embedding", None, "text") as bar:
            while chunk := list(islice(self.texts, CHUNK)):
                found = self._embedded(chunk)
                self.num_texts += len(found)
                self.num_vectors += sum(1 if one.ids is None else len(one.ids) for one in found)
                yield found
                bar.advance(len(found))
        predictor, config = self.predictor, self.config
        rule = config.truncate or predictor.truncation
        limit, file = predictor.source.model.max_length, config.file or "standard input"
        progress.say(truncation_words(self.num_truncated, self.num_texts, file, limit, rule))

    def result(self, out: Path | None, vectors: NDArray[np.float32] | None = None) -> EmbedResult:
        """Return what came of it, once all texts are through."""
        counts = (self.num_texts, self.num_vectors, self.width, self.num_truncated)
        return EmbedResult(out, *counts, vectors)

    def _embedded(self, texts: list[str]) -> list[TextVectors]:
        config, predictor = self.config, self.predictor
        encoded = predictor.encode(texts, truncate=config.truncate)
        self.num_truncated += encoded.num_truncated
        if not config.tokens:
            vectors = predictor.vectors(
                encoded, config.pooling, config.layer, config.normalize, config.micro_tokens
            )
            return list(map(TextVectors, texts, vectors))
        by_token = predictor.token_vectors(
            encoded, config.layer, config.normalize, config.micro_tokens
        )
        tokens = [tuple(predictor.tokenizer.pieces(ids)) for ids in encoded.ids]
        return list(map(TextVectors, texts, by_token, map(tuple, encoded.ids), tokens))


def open_texts(
    config: EmbedConfig, standard_input: BinaryIO | None
) -> tuple[Predictor, Iterator[str]]:
    """Return the model and the texts as its tokenizer reads them."""
    source = file_or_stream(config.file, standard_input)
    predictor = load(config.run, config.device, config.precision, config.threads)
    readable = reader(config.run, predictor.tokenizer, config.pieces)
    return predictor, map(readable, read_texts(source, config.columns))


def _compare_word(config: EmbedConfig, standard_input: BinaryIO | None) -> EmbedResult:
    assert config.word is not None
    if config.out and Path(config.out).suffix.lower() not in (".png", ".svg", ".html"):
        raise WarmstartError(f"-o {config.out}: with --word a picture, .png .svg or .html")
    predictor, texts = open_texts(config, standard_input)
    rule = config.truncate or predictor.truncation
    report = compare_word(predictor, config.word.strip(), texts, rule, config.micro_tokens)
    out = Path(config.out) if config.out else None
    if out:
        write_word_report(report, out)
    num = len(report.sentences)
    return EmbedResult(out, num, num, predictor.source.model.width, 0, word=report)
