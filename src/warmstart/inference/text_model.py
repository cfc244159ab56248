"""A trained model in use: the verbs there are, each refused until a subclass can do it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.results.attention_weights import AttentionMap
from warmstart.results.predictions import FilledText, GeneratedPiece, ProbableWord
from warmstart.settings.shared import Pooling, Truncate
from warmstart.tokenization.tokenizer import join_pieces

VERBS = ("predict", "embed", "attention", "generate", "translate", "fill_mask")
FORMS = ("single texts", "pairs (text, text2)")


@dataclass(frozen=True)
class TextSize:
    """How much a model reads of a text, or of a pair of texts."""

    num_tokens: int
    is_truncated: bool = False  # it is too long and loses a part


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A trained model; subclasses do what their kind can, and the rest is refused."""

    name: str  # for messages: the path of its run
    description: str  # "a masked language model"
    reads_pairs: bool | None = None  # None: not recorded

    @property
    def abilities(self) -> tuple[str, ...]:
        """Return the verbs that it does not refuse."""
        own = type(self)
        return tuple(verb for verb in VERBS if getattr(own, verb) is not getattr(TextModel, verb))

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Return how much it reads of each text; without a tokenizer, words count."""
        seconds = [""] * len(texts) if texts2 is None else texts2
        pairs = zip(texts, seconds, strict=True)
        return [TextSize(len(text.split()) + len(text2.split())) for text, text2 in pairs]

    @property
    def classes(self) -> tuple[str, ...]:
        """Refuse: a classifier has classes."""
        self._refuse("list its classes", "a classifier", "finetune")

    def text_reader(self, is_split: bool) -> Callable[[str], str]:
        """Return the function that prepares a text, perhaps already split into pieces."""
        return join_pieces if is_split else str

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        truncate: Truncate | None = None,
    ) -> NDArray[np.float32]:
        """Refuse: a Transformer turns texts into vectors."""
        self._refuse("embed texts", "a Transformer", "pretrain")

    def attention(
        self, text: str, text2: str | None = None, target: str | None = None
    ) -> dict[str, AttentionMap]:
        """Refuse: a Transformer has attention."""
        self._refuse("see attention", "a Transformer", "pretrain")

    def predict(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[Any]:
        """Refuse: a model that is fine-tuned on labels predicts them."""
        self._refuse("predict labels", "a fine-tuned model", "finetune")

    def generate(self, prompt: str = "", max_tokens: int = 100, **_: Any) -> str:
        """Refuse: a causal language model generates text."""
        self._refuse("generate text", "a causal language model", "pretrain")

    def generate_texts(self, prompt: str, max_tokens: int, **_: Any) -> list[str]:
        """Refuse: a causal language model generates texts, here several together."""
        self._refuse("generate text", "a causal language model", "pretrain")

    def stream(self, prompt: str, max_tokens: int, **_: Any) -> Iterator[GeneratedPiece]:
        """Refuse: a causal language model generates text, here piece by piece."""
        self._refuse("generate text", "a causal language model", "pretrain")

    def translate(self, texts: Sequence[str], **_: Any) -> list[Any]:
        """Refuse: a translator translates."""
        self._refuse("translate", "a translator", "train-translator")

    def fill_mask(
        self, texts: Sequence[str], top_k: int = 5, first_number: int = 1
    ) -> list[FilledText]:
        """Refuse: a masked language model restores masked words."""
        self._refuse("fill masks", "a masked language model", "pretrain")

    def probable_words(self, text: str, top_k: int = 5) -> tuple[ProbableWord, ...]:
        """Refuse: a language model knows which words are probable."""
        self._refuse("predict words", "a language model", "pretrain")

    def _refuse(self, purpose: str, needed: str, command: str) -> NoReturn:
        raise WarmstartError(
            f"{self.name} is {self.description}; to {purpose} you need {needed}, "
            f"which `warmstart {command}` trains"
        )

    def check_texts(self, texts: Sequence[str], texts2: Sequence[str] | None) -> None:
        """Refuse what is no list of texts, or not the form of text the model was trained on."""
        if isinstance(texts, str) or isinstance(texts2, str):
            raise WarmstartError("predict takes a list of texts, not one text")
        self.check_form(texts2 is not None)
        if texts2 is not None and len(texts2) != len(texts):
            raise WarmstartError(
                f"{len(texts):,} texts but {len(texts2):,} second texts; pairs need as many of both"
            )

    def check_form(self, is_pairs: bool) -> None:
        """Refuse pairs where the model was trained on single texts, and the other way round."""
        if self.reads_pairs is not None and self.reads_pairs != is_pairs:
            trained, received = FORMS[self.reads_pairs], FORMS[is_pairs]
            raise WarmstartError(f"{self.name} was trained on {trained}, not on {received}")
