"""The JSON of requests and answers; the descriptions are those of /docs."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from warmstart.settings.shared import Pooling

Texts = Annotated[list[str], Field(min_length=1, description="texts; one result for each")]


class Request(BaseModel):
    """What every request may have."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="name of a run; needed if several can answer")


class ClassifyRequest(Request):
    """Texts to label, or pairs of texts."""

    texts: Texts
    texts2: list[str] | None = Field(None, description="second texts, for a model of pairs")


class EmbedRequest(Request):
    """Texts to turn into vectors."""

    texts: Texts
    pooling: Pooling = Field("mean", description="positions of the text vector")
    layer: int | None = Field(None, ge=0, description="block of the vectors; default: the last")
    normalize: bool = Field(False, description="scale every vector to length 1")


class FillMaskRequest(Request):
    """Texts with [MASK] where words are missing."""

    texts: Texts
    top_k: int = Field(5, ge=1, le=1000, description="words for each mask")


class TranslateRequest(Request):
    """Sentences to translate."""

    texts: Texts
    beam: int = Field(5, ge=1, le=64, description="hypotheses; 1: greedy")
    n_best: int = Field(1, ge=1, le=64, description="translations of each sentence")
    length_penalty: float = Field(1.0, ge=0, le=10)


class GenerateRequest(Request):
    """A prompt to continue."""

    prompt: str = Field("", description="text to continue")
    max_tokens: int = Field(100, ge=1, description="tokens to add, at most")
    temperature: float = Field(0.8, ge=0, description="0: the most likely token each time")
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, lt=2**63, description="the same seed, the same text")
    stream: bool = Field(False, description="send the text as it grows, as server-sent events")


class AttentionRequest(Request):
    """A text to look into."""

    text: str
    text2: str | None = Field(None, description="second text, for a model of pairs")
    target: str | None = Field(None, description="translation; default: the model's own")
    words: bool = Field(False, description="join the pieces of each word")


class Sizes(BaseModel):
    """Which run answered, and how much it read."""

    model: str
    tokens: int = Field(description="tokens that were read")
    truncated: int = Field(description="texts that were too long and lost a part")


class ClassifyAnswer(Sizes):
    """One prediction for every text, as `predict --json` prints it."""

    predictions: list[dict[str, Any]]


class EmbedAnswer(Sizes):
    """One vector for every text."""

    vectors: list[list[float]]


class ProbableWordAnswer(BaseModel):
    """A word for a mask."""

    word: str
    probability: float


class FilledTextAnswer(BaseModel):
    """A text with the best words, and all choices for each mask."""

    text: str
    masks: list[list[ProbableWordAnswer]]


class FillMaskAnswer(BaseModel):
    """One filled text for every text."""

    model: str
    texts: list[FilledTextAnswer]


class TranslationAnswer(BaseModel):
    """One translation."""

    text: str
    score: float
    num_parts: int = Field(description="more than one: the sentence was too long")


class TranslateAnswer(BaseModel):
    """The translations of every sentence, best first."""

    model: str
    translations: list[list[TranslationAnswer]]


class GenerateAnswer(BaseModel):
    """The text after the prompt, and why it ends."""

    model: str
    text: str
    end: Literal["stop", "length"] | None
    seed: int


class AttentionMapAnswer(BaseModel):
    """The weights of one part of the model: layers, heads, queries, keys."""

    part: str
    title: str
    queries: list[str]
    keys: list[str]
    causal: bool
    weights: list[list[list[list[float]]]]


class AttentionAnswer(BaseModel):
    """The attention of a text, part by part."""

    model: str
    maps: list[AttentionMapAnswer]
