"""A Transformer in use: what every kind of it can do with texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.encode import EncodedTexts, encode_texts, truncate, truncate_pair
from warmstart.errors import OVERFLOW, WarmstartError
from warmstart.inference.attention_maps import text_attention
from warmstart.inference.text_model import TextModel, TextSize
from warmstart.inference.vectors import TextBatches, backbone_of, text_vectors, token_vectors
from warmstart.model.backbone import Backbone
from warmstart.results.attention_weights import AttentionMap
from warmstart.results.predictions import ProbableWord
from warmstart.runtime import Runtime
from warmstart.settings.base import check_choice
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling, Truncate
from warmstart.tokenization.tokenizer import Tokenizer, text_reader

MICRO_TOKENS = 8192  # padded tokens read together by default


@dataclass(frozen=True, kw_only=True)
class TransformerModel(TextModel):
    """What every Transformer can do; subclasses add what their kind can."""

    model: nn.Module
    tokenizer: Tokenizer
    runtime: Runtime
    truncate: Truncate = "head"  # what a text that is too long keeps
    ends_texts: bool = True  # whether it reads an end token after a text

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Return the tokenizer of what it writes; a translator may have another one for that."""
        return self.tokenizer

    def __post_init__(self) -> None:
        check_choice(f"{self.name}: truncate", self.truncate, get_args(Truncate))
        self.model.to(self.runtime.device).eval()

    def text_reader(self, is_split: bool) -> Callable[[str], str]:
        return text_reader(self.tokenizer, is_split, self.name)

    @property
    def config(self) -> ModelConfig:
        """Return its architecture."""
        config: Any = self.model.config
        assert isinstance(config, ModelConfig)
        return config

    @property
    def backbone(self) -> Backbone:
        """Return what reads the text; of a translator, the encoder."""
        return backbone_of(self.model)

    def encode(
        self,
        texts: Sequence[str],
        texts2: Sequence[str] | None = None,
        truncate: Truncate | None = None,
    ) -> EncodedTexts:
        """Return ids as the model reads them, cut by the rule given or its own."""
        rule = self.truncate if truncate is None else truncate
        check_choice("truncate", rule, get_args(Truncate))
        return encode_texts(texts, self.tokenizer, self.config.max_length, rule, texts2)

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Return how many tokens it reads of each text, and whether it cuts it."""
        encoded = self.encode(texts, texts2)
        return list(map(TextSize, map(len, encoded.ids), encoded.is_truncated))

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        truncate: Truncate | None = None,
    ) -> NDArray[np.float32]:
        """Return one vector for every text: (texts, D); layer 0 is the embeddings."""
        if isinstance(texts, str):
            raise WarmstartError("embed takes a list of texts, not one text")
        check_choice("pooling", pooling, get_args(Pooling))
        return self.vectors(self.encode(texts, truncate=truncate), pooling, layer, normalize)

    def vectors(
        self,
        encoded: EncodedTexts,
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        micro_tokens: int = MICRO_TOKENS,
    ) -> NDArray[np.float32]:
        """Return one vector for every encoded text: (texts, D)."""
        vectors = text_vectors(
            self.backbone,
            encoded.ids,
            TextBatches(micro_tokens, self.tokenizer.pad, self.runtime),
            pooling,
            self._layer(layer),
            encoded.starts,
        )
        return _as_array(vectors, normalize)

    def token_vectors(
        self,
        encoded: EncodedTexts,
        layer: int | None = None,
        normalize: bool = False,
        micro_tokens: int = MICRO_TOKENS,
    ) -> list[NDArray[np.float32]]:
        """Return a vector for each token in context of every encoded text: (T, D)."""
        batches = TextBatches(micro_tokens, self.tokenizer.pad, self.runtime)
        by_text = token_vectors(self.backbone, encoded.ids, batches, [self._layer(layer)])
        return [_as_array(vectors[0], normalize) for vectors in by_text]

    def attention(
        self, text: str, text2: str | None = None, target: str | None = None
    ) -> dict[str, AttentionMap]:
        """Return attention weights by part: `self`, or a translator's encoder, decoder, cross.

        Computed in the precision of the weights, so that each row sums to one.
        """
        if target is not None:
            raise WarmstartError(f"--target needs a translator; {self.name} is {self.description}")
        segments = None
        if text2 is None:
            ids = self.ids_of(text)
        else:
            ids, segments = self._pair(text, text2)
        return {"self": text_attention(self.backbone, self.tokenizer, ids, segments)}

    def ids_of(self, text: str) -> list[int]:
        """Return the ids of one text as the model reads it; one that is too long is cut."""
        room = self.config.max_length - 1 - self.ends_texts
        ids = [*self.tokenizer.start, *self.cut(text, room, self.tokenizer)]
        return ids + [self.tokenizer.eos] * self.ends_texts

    def probable_word(self, index: int, probability: float) -> ProbableWord:
        """Return one entry of the vocabulary as a word, with its probability."""
        piece = self.tokenizer.labels([index])[0]
        return ProbableWord(piece.replace("▁", " ").strip() or piece, probability)

    def cut(self, text: str, room: int, tokenizer: Tokenizer) -> list[int]:
        """Return the ids of a text; one that is too long is cut, with a message."""
        ids = tokenizer.encode([text])[0]
        if not ids:
            raise WarmstartError(f"the text {text!r} has no tokens to show")
        if len(ids) > room:
            progress.say(
                f"the text has {len(ids):,} tokens; {room:,} are read, by the rule "
                f"'{self.truncate}'"
            )
            ids = truncate(ids, room, self.truncate)
        return ids

    def _layer(self, layer: int | None) -> int:
        depth = self.backbone.config.depth
        if layer is not None and not 0 <= layer <= depth:
            raise WarmstartError(
                f"--layer {layer} is out of range: {self.name} has layers 0 (embeddings) to {depth}"
            )
        return depth if layer is None else layer

    def _pair(self, text: str, text2: str) -> tuple[list[int], list[int]]:
        """Return two texts in one row, each followed by an end token, and their segments."""
        if self.config.is_causal and not self.reads_pairs:
            raise WarmstartError(
                f"--text2 needs a model with bidirectional attention or trained on pairs; "
                f"{self.name} is {self.description}"
            )
        tokenizer = self.tokenizer
        first, second = tokenizer.encode([text, text2])
        num_tokens, room = len(first) + len(second), self.config.max_length - 3
        if num_tokens > room:
            progress.say(
                f"the texts have {num_tokens:,} tokens; {room:,} are read, by the rule "
                f"'{self.truncate}'"
            )
        first, second = truncate_pair(first, second, room, self.truncate)
        ids = [tokenizer.bos, *first, tokenizer.eos, *second, tokenizer.eos]
        return ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)


def _as_array(vectors: Tensor, normalize: bool) -> NDArray[np.float32]:
    scaled = F.normalize(vectors, dim=-1) if normalize else vectors
    array: NDArray[np.float32] = scaled.float().numpy()
    if not np.isfinite(array).all():
        raise WarmstartError(f"the model's vectors are NaN or infinite; {OVERFLOW}")
    return array
