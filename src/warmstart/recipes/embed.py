"""`embed`: turn texts into vectors, or compare one word's vectors between texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.batching.encode import Truncation
from warmstart.data.chunks import chunked
from warmstart.data.corpus import read_texts
from warmstart.data.vector_files import TextVectors, check_name, writing
from warmstart.errors import WarmstartError
from warmstart.inference.text_model import TransformerModel
from warmstart.insight.word_context import compare_word
from warmstart.loading import load_transformer
from warmstart.report.word_figure import write_word_similarity
from warmstart.results.word_similarity import WordSimilarity
from warmstart.settings.using import EmbedConfig
from warmstart.textfiles import file_or_stream
from warmstart.tokenization.pieces import text_reader

CHUNK = 1024  # texts sorted by length and read together
WORD_FORMATS = (".png", ".svg", ".html")


@dataclass(frozen=True)
class EmbedResult:
    """The vectors of texts, or the comparison of one word."""

    out: Path | None  # the file written
    num_texts: int
    num_vectors: int
    width: int
    num_truncated: int
    vectors: NDArray[np.float32] | None = None  # (num_vectors, width) if no file is written
    word: WordSimilarity | None = None  # with --word


def embed(config: EmbedConfig, standard_input: BinaryIO | None = None) -> EmbedResult:
    """Turn texts into vectors; write them to a file, or return them if none is named."""
    if config.word is not None:
        return _compare_word(config, config.word.strip(), standard_input)
    out = Path(config.out) if config.out else None
    if out:
        check_name(out, config.tokens)
    stream = _EmbedStream(config, standard_input)
    if out:
        with writing(out, stream.width, config.tokens) as add:
            for chunk in stream.chunks():
                add(chunk)
        return stream.result(out)
    vectors = [np.atleast_2d(text.vectors) for chunk in stream.chunks() for text in chunk]
    empty = np.zeros((0, stream.width), np.float32)
    return stream.result(None, np.concatenate([empty, *vectors]))


def embed_lines(config: EmbedConfig, standard_input: BinaryIO | None) -> Iterator[str]:
    """Yield a line of JSON for every text."""
    for chunk in _EmbedStream(config, standard_input).chunks():
        for text in chunk:
            yield text.to_json()


class _EmbedStream:
    """Computes the vectors of texts, chunk by chunk, and counts them."""

    def __init__(self, config: EmbedConfig, standard_input: BinaryIO | None) -> None:
        self.config = config
        self.predictor, self.texts = _open_texts(config, standard_input)
        self.width = self.predictor.config.width
        self.num_texts = self.num_vectors = self.num_truncated = 0

    def chunks(self) -> Iterator[list[TextVectors]]:
        """Yield the texts with their vectors, in order; finally report how many were cut."""
        with progress.bar("embedding", None, "text") as bar:
            for texts in chunked(self.texts, CHUNK):
                chunk = self._embed(texts)
                self.num_texts += len(chunk)
                self.num_vectors += sum(1 if text.ids is None else len(text.ids) for text in chunk)
                yield chunk
                bar.advance(len(chunk))
        rule = self.config.truncate or self.predictor.truncate
        limit, file = self.predictor.config.max_length, self.config.file or "standard input"
        truncation = Truncation(file, self.num_texts, self.num_truncated, limit, rule)
        progress.say(truncation.describe())

    def result(self, out: Path | None, vectors: NDArray[np.float32] | None = None) -> EmbedResult:
        counts = (self.num_texts, self.num_vectors, self.width, self.num_truncated)
        return EmbedResult(out, *counts, vectors)

    def _embed(self, texts: list[str]) -> list[TextVectors]:
        config, predictor = self.config, self.predictor
        encoded = predictor.encode(texts, truncate=config.truncate)
        self.num_truncated += encoded.num_truncated
        rest = (config.layer, config.normalize, config.micro_tokens)
        if not config.tokens:
            vectors = predictor.vectors(encoded, config.pooling, *rest)
            return list(map(TextVectors, texts, vectors))
        token_vectors = predictor.token_vectors(encoded, *rest)
        tokens = [tuple(predictor.tokenizer.pieces(ids)) for ids in encoded.ids]
        return list(map(TextVectors, texts, token_vectors, map(tuple, encoded.ids), tokens))


def _open_texts(
    config: EmbedConfig, standard_input: BinaryIO | None
) -> tuple[TransformerModel, Iterator[str]]:
    source = file_or_stream(config.file, standard_input)
    predictor = load_transformer(config.run, config)
    read = text_reader(predictor.tokenizer, config.pieces, config.run)
    return predictor, map(read, read_texts(source, config))


def _compare_word(config: EmbedConfig, word: str, standard_input: BinaryIO | None) -> EmbedResult:
    out = Path(config.out) if config.out else None
    if out and out.suffix.lower() not in WORD_FORMATS:
        raise WarmstartError(
            f"-o {out}: with --word, the output is a {' '.join(WORD_FORMATS)} file"
        )
    predictor, texts = _open_texts(config, standard_input)
    rule = config.truncate or predictor.truncate
    report = compare_word(predictor, word, texts, rule, config.micro_tokens)
    if out:
        write_word_similarity(report, out)
    num = len(report.sentences)
    return EmbedResult(out, num, num, predictor.config.width, 0, word=report)
