"""`embed`: turn texts into vectors."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.batching.truncation import EncodedTexts, Truncation
from warmstart.data.corpus import cut_chunks, read_input
from warmstart.data.outputs import TextVectors, check_name, open_vectors
from warmstart.formats import quantity
from warmstart.report.html import Shown
from warmstart.runtime import Runtime
from warmstart.settings.using import EmbedConfig
from warmstart.tasks.registry import as_transformer, load_on
from warmstart.tasks.text_model import TextModel, TransformerModel

CHUNK = 1024  # texts sorted by length and read together
SAMPLE = 32  # texts that are also read in full precision, to see what a faster precision costs


@dataclass(frozen=True)
class EmbedResult(Shown):
    """The vectors of texts."""

    out: Path | None  # the file written
    num_texts: int
    num_vectors: int
    width: int
    num_truncated: int
    vectors: NDArray[np.float32] | None = None  # (num_vectors, width) if no file is written

    def pieces(self) -> list[str]:
        where = "" if self.out is None else f" in {self.out}"
        return [f"{quantity(self.num_vectors, 'vector')} of width {self.width}{where}"]


def embed(config: EmbedConfig, standard_input: BinaryIO | None = None) -> EmbedResult:
    """Turn texts into vectors; write them to a file, or return them if none is named."""
    out = Path(config.out) if config.out else None
    if out:
        check_name(out, config.tokens)
    stream = _EmbedStream(config, standard_input)
    if out:
        with open_vectors(out, stream.width, config.tokens) as add:
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
        self.width: int = self.predictor.width
        self.num_texts = self.num_vectors = self.num_truncated = 0

    def chunks(self) -> Iterator[list[TextVectors]]:
        """Yield the texts with their vectors, in order; finally report how many were cut."""
        with progress.bar("embedding", None, "text") as bar:
            for texts in cut_chunks(self.texts, CHUNK):
                chunk = self._embed(texts)
                model = self.predictor
                if self.num_texts == 0 and isinstance(model, TransformerModel):
                    self._say_deviation(model, texts[:SAMPLE], chunk)
                self.num_texts += len(chunk)
                self.num_vectors += sum(1 if text.ids is None else len(text.ids) for text in chunk)
                yield chunk
                bar.advance(len(chunk))
        if not isinstance(self.predictor, TransformerModel):
            return  # it reads whole texts
        rule = self.config.truncate or self.predictor.truncate
        limit, file = self.predictor.config.max_length, self.config.file or "standard input"
        truncation = Truncation(file, self.num_texts, self.num_truncated, limit, rule)
        progress.say(truncation.describe())

    def result(self, out: Path | None, vectors: NDArray[np.float32] | None = None) -> EmbedResult:
        counts = (self.num_texts, self.num_vectors, self.width, self.num_truncated)
        return EmbedResult(out, *counts, vectors)

    def _embed(self, texts: list[str]) -> list[TextVectors]:
        config, model = self.config, self.predictor
        if not isinstance(model, TransformerModel):
            of_texts = model.embed(texts, config.pooling, config.layer, config.normalize)
            return list(map(TextVectors, texts, of_texts))
        encoded = model.encode(texts, truncate=config.truncate)
        self.num_truncated += encoded.num_truncated
        vectors = self._vectors(model, encoded)
        if not config.tokens:
            return list(map(TextVectors, texts, vectors))
        tokens = [tuple(model.tokenizer.pieces(ids)) for ids in encoded.ids]
        return list(map(TextVectors, texts, vectors, map(tuple, encoded.ids), tokens))

    def _vectors(self, model: TransformerModel, encoded: EncodedTexts) -> list[NDArray[np.float32]]:
        """Return the vector of every text, or the vectors of its tokens."""
        config = self.config
        rest = (config.layer, config.normalize, config.micro_tokens)
        if config.tokens:
            return model.token_vectors(encoded, *rest)
        return list(model.vectors(encoded, config.pooling, *rest))

    def _say_deviation(
        self, model: TransformerModel, texts: list[str], chunk: list[TextVectors]
    ) -> None:
        """Say how far the first texts' vectors are from those of full precision."""
        if model.runtime.dtype is None:
            return
        exact = replace(model, runtime=Runtime(model.runtime.device))
        vectors = self._vectors(exact, exact.encode(texts, truncate=self.config.truncate))
        largest = max(
            float(np.linalg.norm(text.vectors - full)) / max(1e-12, float(np.linalg.norm(full)))
            for text, full in zip(chunk, vectors, strict=False)
        )
        progress.say(
            f"{self.config.precision}: the vectors of the first {quantity(len(texts), 'text')} "
            f"deviate from fp32 by up to {largest:.1%} of their length"
        )


def _open_texts(
    config: EmbedConfig, standard_input: BinaryIO | None
) -> tuple[TextModel, Iterator[str]]:
    texts = read_input(config, standard_input)
    predictor = load_on(config.run, config)
    if "embed" not in predictor.abilities or config.tokens:
        predictor = as_transformer(predictor)
    return predictor, map(predictor.text_reader(config.pieces), texts)
