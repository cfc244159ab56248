"""A trained model in use: what all models share, what Transformers do, and who has which verb."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.truncation import EncodedTexts, encode_texts, truncate, truncate_pair
from warmstart.data.labelled import PAIR
from warmstart.dataframes import Tabular
from warmstart.errors import OVERFLOW, WarmstartError
from warmstart.formats import Brief, shorten
from warmstart.model.attention_weights import AttentionMap
from warmstart.model.backbone import Backbone
from warmstart.runtime import Runtime
from warmstart.settings.base import check_choice, check_keywords
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling, Truncate
from warmstart.tasks.explaining import explain_by_omission
from warmstart.tasks.vectors import (
    TextBatches,
    backbone_of,
    text_attention,
    text_vectors,
    token_vectors,
)
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces, text_reader

P = ParamSpec("P")
R = TypeVar("R")
VERBS = ("predict", "answer", "embed", "attention", "generate", "translate", "fill_mask")
GENERATION = ("generate text", "a causal language model", "pretrain")
TRANSLATION = ("translate", "a translator", "train-translator")
# What each method is for, the kind of model that has it, and the command that trains one.
KINDS = {
    "predict": ("predict labels", "a fine-tuned model", "finetune"),
    "explain": ("explain labels", "a classifier", "finetune"),
    "answer": ("answer questions", "a question answerer", "finetune"),
    "classes": ("list its classes", "a classifier", "finetune"),
    "embed": ("embed texts", "a Transformer", "pretrain"),
    "attention": ("see attention", "a Transformer", "pretrain"),
    "generate": GENERATION,
    "generate_texts": GENERATION,
    "stream": GENERATION,
    "translate": TRANSLATION,
    "translate_texts": TRANSLATION,
    "fill_mask": ("fill masks", "a masked language model", "pretrain"),
    "probable_words": ("predict words", "a language model", "pretrain"),
}
FORMS = ("single texts", "pairs (text, text2)")
MOST_SHOWN = 3  # predictions in the `repr` of a list of them
MOST_ROWS, MOST_CELL_CHARS = 10, 120  # of them in a notebook
MICRO_TOKENS = 8192  # padded tokens read together by default


@dataclass(frozen=True)
class TextSize:
    """How much a model reads of a text, or of a pair of texts."""

    num_tokens: int
    is_truncated: bool = False  # too long: a part is lost


@dataclass(frozen=True)
class ProbableWord:
    """A word, or a piece of one, that may stand where a word is masked."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text with its masked words restored, and the choices for each of them, best first."""

    text: str
    masks: tuple[tuple[ProbableWord, ...], ...]

    def line(self) -> str:
        """Return the choices on one line, with a tab between the masks."""
        return "\t".join(
            ", ".join(f"{choice.word} {choice.probability:.1%}" for choice in choices)
            for choices in self.masks
        )


@dataclass(frozen=True)
class GeneratedPiece:
    """The text that one more token adds; the last piece says why the text ends."""

    text: str  # may be empty: a token can be a part of a character
    end: Literal["stop", "length"] | None = None  # an end token, or no room for more


def checks_keywords(verb: Callable[P, R]) -> Callable[P, R]:
    """Refuse keywords that a verb does not have, and name the one that was probably meant."""
    known = [name for name in inspect.signature(verb).parameters if name != "self"]

    @functools.wraps(verb)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        check_keywords(verb.__name__, keywords, known)
        return verb(*args, **keywords)

    return call


class MissingVerbError(WarmstartError, AttributeError):
    """A verb that a model of this kind does not have; `hasattr` answers False."""


@dataclass(frozen=True, kw_only=True)
class TextModel(Brief):
    """A trained model; subclasses have the verbs of their kind, and the others are refused."""

    name: str  # for messages: the path of its run
    description: str  # "a masked language model"
    reads_pairs: bool | None = None  # None: not recorded
    pair_names: tuple[str, str] = PAIR  # the columns of a pair

    def __getattr__(self, name: str) -> Any:
        """Refuse a verb of other models: say which have it, and the command that trains one."""
        if name not in KINDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        purpose, needed, command = KINDS[name]
        raise MissingVerbError(
            f"{self.name} is {self.description}; to {purpose} you need {needed}, "
            f"which `warmstart {command}` trains"
        )

    @property
    def abilities(self) -> tuple[str, ...]:
        """Return the verbs that the model has."""
        return tuple(verb for verb in VERBS if hasattr(type(self), verb))

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Return how much the model reads of each text; without a tokenizer, words count."""
        seconds = [""] * len(texts) if texts2 is None else texts2
        pairs = zip(texts, seconds, strict=True)
        return [TextSize(len(text.split()) + len(text2.split())) for text, text2 in pairs]

    def text_reader(self, is_split: bool) -> Callable[[str], str]:
        """Return the function that prepares a text, perhaps already split into pieces."""
        return join_pieces if is_split else str

    def check_texts(
        self, texts: Iterable[str], texts2: Iterable[str] | None
    ) -> tuple[list[str], list[str] | None]:
        """Return texts as lists; refuse single texts or pairs that the model cannot read."""
        firsts = list_texts("predict", "texts", texts)
        seconds = None if texts2 is None else list_texts("predict", "texts2", texts2)
        self.check_form(seconds is not None)
        if seconds is not None and len(seconds) != len(firsts):
            raise WarmstartError(
                f"{len(firsts):,} texts but {len(seconds):,} second texts; pairs need as many of "
                "both"
            )
        return firsts, seconds

    def check_form(self, is_pairs: bool) -> None:
        """Refuse pairs where the model was trained on single texts, and the other way round."""
        if self.reads_pairs is not None and self.reads_pairs != is_pairs:
            trained, received = FORMS[self.reads_pairs], FORMS[is_pairs]
            raise WarmstartError(f"{self.name} was trained on {trained}, not on {received}")


@dataclass(frozen=True, kw_only=True)
class TransformerModel(TextModel):
    """The verbs of every Transformer; subclasses add those of their kind."""

    model: nn.Module
    tokenizer: Tokenizer
    runtime: Runtime
    truncate: Truncate = "head"  # what a text that is too long keeps
    ends_texts: bool = True  # whether the model reads an end token after a text

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Return the tokenizer of generated text; a translator may have a second tokenizer."""
        return self.tokenizer

    def __post_init__(self) -> None:
        check_choice(f"{self.name}: truncate", self.truncate, get_args(Truncate))
        self.model.to(self.runtime.device).eval()

    def text_reader(self, is_split: bool) -> Callable[[str], str]:
        return text_reader(self.tokenizer, is_split, self.name)

    @property
    def config(self) -> ModelConfig:
        """Return the architecture."""
        config: Any = self.model.config
        assert isinstance(config, ModelConfig)
        return config

    @property
    def width(self) -> int:
        """Return the number of dimensions of a vector."""
        return self.config.width

    @property
    def backbone(self) -> Backbone:
        """Return the backbone; of a translator, the encoder."""
        return backbone_of(self.model)

    def encode(
        self,
        texts: Sequence[str],
        texts2: Sequence[str] | None = None,
        truncate: Truncate | None = None,
    ) -> EncodedTexts:
        """Encode texts for the model, cut by the rule given or the rule of the run."""
        rule = self.truncate if truncate is None else truncate
        check_choice("truncate", rule, get_args(Truncate))
        return encode_texts(texts, self.tokenizer, self.config.max_length, rule, texts2)

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Count the tokens that the model reads of each text, and tell whether a part is lost."""
        encoded = self.encode(texts, texts2)
        return list(map(TextSize, map(len, encoded.ids), encoded.is_truncated))

    @checks_keywords
    def embed(
        self,
        texts: Iterable[str],
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        truncate: Truncate | None = None,
    ) -> NDArray[np.float32]:
        """Return one vector for every text: (texts, D); layer 0 is the embeddings."""
        check_choice("pooling", pooling, get_args(Pooling))
        encoded = self.encode(list_texts("embed", "texts", texts), truncate=truncate)
        return self.vectors(encoded, pooling, layer, normalize)

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
        """Encode one text for the model; a text that is too long is cut."""
        room = self.config.max_length - 1 - self.ends_texts
        ids = [*self.tokenizer.start, *self.cut(text, room, self.tokenizer)]
        return ids + [self.tokenizer.eos] * self.ends_texts

    def probable_word(self, index: int, probability: float) -> ProbableWord:
        """Return one entry of the vocabulary as a word, with its probability."""
        piece = self.tokenizer.labels([index])[0]
        return ProbableWord(piece.replace("▁", " ").strip() or piece, probability)

    def cut(self, text: str, room: int, tokenizer: Tokenizer) -> list[int]:
        """Encode one text without special tokens; a text that is too long is cut and reported."""
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


def list_texts(verb: str, name: str, texts: Iterable[str]) -> list[str]:
    """Return texts, perhaps a column of a DataFrame, as a list; refuse what is no text."""
    if isinstance(texts, str):
        raise WarmstartError(f"{verb} takes a list of texts, not one text: write [{name}]")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # whose items are names of columns
        raise WarmstartError(f"{verb} takes texts, not a table: give one column of it")
    listed = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)  # of Arrow, or any
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise WarmstartError(
                f"{verb}: {name}[{number}] is {shorten(repr(text))}, not a string; leave out rows "
                "without text, such as by dropna(), and write numbers as strings"
            )
    return list(map(str, listed))  # a string of NumPy is one of Python, too


class Predictions(list[Any], Tabular):
    """What a model answers to texts, in their order; None where there is no text."""

    def __repr__(self) -> str:
        shown = [repr(answer) for answer in self[:MOST_SHOWN]]
        if len(self) > MOST_SHOWN:
            shown.append(f"… {len(self) - MOST_SHOWN:,} more")
        return f"[{', '.join(shown)}]"

    def records(self) -> list[Mapping[str, Any]]:
        columns = [None if answer is None else answer.columns() for answer in self]
        names: Mapping[str, Any] = next(filter(None, columns), {})
        return [dict.fromkeys(names) if row is None else row for row in columns]

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, without the probabilities of all classes."""
        from warmstart.report.html import render, table

        rows, note = self.records(), f"{len(self):,} predictions"
        names = [name for name in (rows or [{}])[0] if not name.startswith("probability_")]
        cells = [[_cell(row[name]) for name in names] for row in rows[:MOST_ROWS]]
        if len(rows) > MOST_ROWS:
            note += f"; the first {MOST_ROWS} are shown, to_pandas() has all"
        return render("notebook.html", {"pieces": [note, table(names, cells, range(len(names)))]})


def _cell(value: Any) -> str:
    """Return a value as a table in a notebook shows it."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else shorten(str(value), MOST_CELL_CHARS)


@dataclass(frozen=True)
class Prediction:
    """The class of one text, and the probability of each class."""

    label: str
    probability: float
    probabilities: dict[str, float]

    @property
    def uncertainty(self) -> float:
        """Return how near the second class is to the first: from 0 to 1, where both are equal."""
        first, second = sorted((0.0, *self.probabilities.values()), reverse=True)[:2]
        return 1 - (first - second)

    def support(self, other: "Prediction") -> float:
        """Return the probability that another prediction gives to this label."""
        return other.probabilities[self.label]

    def columns(self) -> dict[str, str | float]:
        """Return the columns of a table, probabilities to six digits."""
        shares = {f"probability_{name}": share for name, share in self.probabilities.items()}
        numbers = {"probability": self.probability, **shares}
        return {"label": self.label, **{name: round(value, 6) for name, value in numbers.items()}}


@dataclass(frozen=True, kw_only=True)
class TextPredictor(TransformerModel):
    """A model that labels texts."""

    answer: Callable[[EncodedTexts], list[Any]]  # one prediction for every encoded text
    classes: tuple[str, ...] = ()  # that a classifier tells apart

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Label texts, or pairs of a text and its second text."""
        texts, texts2 = self.check_texts(texts, texts2)
        return Predictions(self.answer(self.encode(texts, texts2)) if texts else [])

    def explain(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> Predictions:
        """Label texts, and tell what each word changes."""
        return Predictions(explain_by_omission(self.predict, texts, texts2))
