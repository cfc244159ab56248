"""The decoder of a translator: it attends to the encoder output and predicts the target."""

from dataclasses import dataclass

from torch import Tensor, nn

from warmstart.model.attention import AttentionContext
from warmstart.model.backbone import Layout, Stack
from warmstart.model.cache import KeyValueCache
from warmstart.model.layers import DecoderBlock
from warmstart.model.masks import padding_mask
from warmstart.settings.model import ModelConfig


@dataclass(frozen=True)
class EncoderOutput:
    """The hidden vectors of a batch of sources, and which of them are tokens."""

    hidden: Tensor  # (B, S, D)
    is_token: Tensor | None = None  # (B, S) False where padded; None: no padding

    @property
    def mask(self) -> Tensor | None:
        """Return the mask (B, 1, 1, S) of attention to the source."""
        return None if self.is_token is None else padding_mask(self.is_token)

    def select(self, rows: Tensor) -> "EncoderOutput":
        """Return these sources, in this order."""
        is_token = None if self.is_token is None else self.is_token[rows]
        return EncoderOutput(self.hidden[rows], is_token)


class Decoder(Stack):
    """The decoder stack of the 2017 paper; its embedding may be the encoder's."""

    def __init__(self, config: ModelConfig) -> None:
        embed = None if config.shared else nn.Embedding(config.vocab_size, config.width)
        super().__init__(config, DecoderBlock, embed)

    def forward(
        self,
        tokens: Tensor,
        encoder_output: EncoderOutput,
        cache: KeyValueCache | None = None,
        attention_weights: list[Tensor] | None = None,
        cross_attention_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return hidden vectors (N, T, D) from the embeddings of target tokens (N, T, D).

        N / B neighbouring rows share each of the B sources.
        """
        x, contexts = self.prepare(tokens, Layout(), cache, attention_weights)
        source_context = AttentionContext(
            encoder_output.mask, cache=cache, attention_weights=cross_attention_weights
        )
        for block, context in zip(self.blocks, contexts, strict=True):
            x = self.run_block(block, x, context, encoder_output.hidden, source_context)
        return self.normalize(x)
