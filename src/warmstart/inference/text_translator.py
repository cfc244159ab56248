"""A translator in use: sentences in, translations out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import fast_engine
from warmstart.errors import WarmstartError
from warmstart.inference.attention_maps import pair_attention
from warmstart.inference.transformer_model import TransformerModel
from warmstart.inference.translator import BeamTranslator, Translation, TranslationSearch
from warmstart.model.models import Translator
from warmstart.results.attention_weights import AttentionMap
from warmstart.settings.translating import Search
from warmstart.tokenization.pair import TokenizerPair
from warmstart.tokenization.tokenizer import Tokenizer

BATCH_TOKENS = {"cpu": 4096, "cuda": 16_384}  # decoded together: a GPU needs many to be busy
USUAL_BEAM = 5  # that these hold for; a wider beam has more rows of each sentence


@dataclass(frozen=True, kw_only=True)
class TextTranslator(TransformerModel):
    """A model that translates."""

    tokenizers: TokenizerPair

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the translations."""
        return self.tokenizers.target

    @cached_property
    def translator(self) -> BeamTranslator:
        """Return the model in the form that decodes fastest here."""
        engine = fast_engine(cast(Translator, self.model), self.runtime)
        return BeamTranslator(engine, self.tokenizer, self.target_tokenizer)

    def translate(
        self,
        texts: Sequence[str],
        beam: int = 5,
        length_penalty: float = 1.0,
        n_best: int = 1,
        max_ratio: float = 2.0,
        batch_tokens: int | None = None,
        overlong: str = "split",
        first_number: int = 1,
        **_: Any,
    ) -> list[list[Translation]]:
        """Translate every sentence, best translation first; an empty one stays empty."""
        settings = Search(
            beam=beam,
            length_penalty=length_penalty,
            max_ratio=max_ratio,
            batch_tokens=batch_tokens,
        )
        if n_best > settings.beam:
            raise WarmstartError(f"n_best {n_best} is more than beam {beam}: widen the beam")
        usual = BATCH_TOKENS[self.runtime.device.type] * USUAL_BEAM // max(USUAL_BEAM, beam)
        search = TranslationSearch(
            beam=Beam(width=beam, length_penalty=length_penalty, num_best=n_best),
            max_ratio=max_ratio,
            batch_tokens=batch_tokens or usual,
            splits_overlong=overlong == "split",
        )
        return self.translator.translate(texts, search, first_number)

    def attention(
        self, text: str, text2: str | None = None, target: str | None = None
    ) -> dict[str, AttentionMap]:
        """Return the weights of encoder, decoder and cross-attention."""
        if text2 is not None:
            raise WarmstartError(f"--text2 is not for {self.description}, which {self.name} is")
        tokenizer, other, length = self.tokenizer, self.target_tokenizer, self.config.max_length
        source = [*tokenizer.start, *self.cut(text, length - 2, tokenizer), tokenizer.eos]
        ids = None if target is None else [other.bos, *self.cut(target, length - 1, other)]
        return pair_attention(cast(Translator, self.model), tokenizer, other, source, ids)
