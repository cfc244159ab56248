"""The routes of every verb, and the JSON they take and return."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.types import Receive, Scope, Send

from warmstart.model.attention_weights import AttentionMap, readable
from warmstart.serving.responses import (
    Json,
    NotJsonError,
    Pieces,
    TooLargeError,
    event_stream,
    opened,
    unprocessable,
    whole,
)
from warmstart.serving.service import Generation, Service
from warmstart.serving.worker import Answer, AttentionCall, Worker, call
from warmstart.settings.shared import Pooling
from warmstart.settings.using import Sampling

MOST_WEIGHTS = 2_000_000  # attention weights in one answer

# The path of each verb of a model.
PATHS = {
    "predict": "/classify",
    "embed": "/embed",
    "attention": "/attention",
    "generate": "/generate",
    "translate": "/translate",
    "fill_mask": "/fill-mask",
}
Texts = Annotated[list[str], Field(min_length=1, description="texts; one result for each")]


class Message(BaseModel):
    """What every request may have."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="name of a run; needed if several can answer")


class ClassifyRequest(Message):
    """Texts to label, or pairs of texts."""

    texts: Texts
    texts2: list[str] | None = Field(None, description="second texts, for a model of pairs")


class EmbedRequest(Message):
    """Texts to turn into vectors."""

    texts: Texts
    pooling: Pooling = Field("mean", description="positions of the text vector")
    layer: int | None = Field(None, ge=0, description="block of the vectors; default: the last")
    normalize: bool = Field(False, description="scale every vector to length 1")


class FillMaskRequest(Message):
    """Texts with [MASK] where words are missing."""

    texts: Texts
    top_k: int = Field(5, ge=1, le=1000, description="words for each mask")


class TranslateRequest(Message):
    """Sentences to translate."""

    texts: Texts
    beam: int = Field(5, ge=1, le=64, description="hypotheses; 1: greedy")
    n_best: int = Field(1, ge=1, le=64, description="translations of each sentence")
    length_penalty: float = Field(1.0, ge=0, le=10)


class GenerateRequest(Message):
    """A prompt to continue."""

    prompt: str = Field("", description="text to continue")
    max_tokens: int = Field(100, ge=1, description="tokens to add, at most")
    temperature: float = Field(0.8, ge=0, description="0: the most likely token each time")
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, lt=2**63, description="the same seed, the same text")
    stream: bool = Field(False, description="send the text as it grows, as server-sent events")


class AttentionRequest(Message):
    """A text to look into."""

    text: str
    text2: str | None = Field(None, description="second text, for a model of pairs")
    target: str | None = Field(None, description="translation; default: the model's own")
    words: bool = Field(False, description="join the pieces of each word")


class VerbRoutes:
    """One route for each verb."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter(tags=["verbs"], route_class=JsonRoute)
        answers: dict[str, tuple[Callable[..., Any], type[BaseModel]]] = {
            "predict": (self.classify, ClassifyAnswer),
            "embed": (self.embed, EmbedAnswer),
            "attention": (self.attention, AttentionAnswer),
            "generate": (self.generate, GenerateAnswer),
            "translate": (self.translate, TranslateAnswer),
            "fill_mask": (self.fill_mask, FillMaskAnswer),
        }
        for verb, (endpoint, answer) in answers.items():
            routes.add_api_route(PATHS[verb], endpoint, methods=["POST"], response_model=answer)
        return routes

    async def classify(self, body: ClassifyRequest) -> Response:
        """Label texts."""
        worker = self.service.runs.choose(body.model, "predict")
        answer = await self.service.answer(worker, call("predict"), body.texts, body.texts2)
        return Json({**_sizes(worker, answer), "predictions": answer.results})

    async def embed(self, body: EmbedRequest) -> Response:
        """Turn texts into vectors."""
        worker = self.service.runs.choose(body.model, "embed")
        options = body.model_dump(include={"pooling", "layer", "normalize"})
        answer = await self.service.answer(worker, call("embed", **options), body.texts)
        return Json({**_sizes(worker, answer), "vectors": np.asarray(answer.results).tolist()})

    async def fill_mask(self, body: FillMaskRequest) -> Response:
        """Restore masked words."""
        worker = self.service.runs.choose(body.model, "fill_mask")
        fill = call("fill_mask", top_k=body.top_k)
        answer = await self.service.answer(worker, fill, body.texts)
        return Json({"model": worker.model.name, "texts": answer.results})

    async def translate(self, body: TranslateRequest) -> Response:
        """Translate sentences."""
        worker = self.service.runs.choose(body.model, "translate")
        options = body.model_dump(include={"beam", "n_best", "length_penalty"})
        answer = await self.service.answer(worker, call("translate", **options), body.texts)
        return Json({"model": worker.model.name, "translations": answer.results})

    async def generate(self, body: GenerateRequest) -> Response:
        """Continue a prompt."""
        worker = self.service.runs.choose(body.model, "generate")
        sampling = Sampling(**body.model_dump(include={"temperature", "top_k", "top_p"}))
        seed = self.service.seed(body.seed)
        generation = Generation(body.prompt, body.max_tokens, sampling, seed)
        pieces = await opened(self.service.generate(worker, generation))
        if body.stream:
            return event_stream(_growing(pieces))
        text = await whole(pieces)
        values = {"model": worker.model.name, "text": text.text, "end": text.end, "seed": seed}
        return Json(values)

    async def attention(self, body: AttentionRequest) -> Response:
        """Return the attention weights of every layer and head on a text."""
        worker = self.service.runs.choose(body.model, "attention")
        seconds = None if body.text2 is None else [body.text2]
        look = AttentionCall(body.target)
        maps = (await self.service.answer(worker, look, [body.text], seconds)).results[0].values()
        if sum(attention.weights.size for attention in maps) > MOST_WEIGHTS:
            raise TooLargeError(
                f"the text has more than {MOST_WEIGHTS:,} attention weights: shorten it"
            )
        shown = [_map(attention.joined() if body.words else attention) for attention in maps]
        return Json({"model": worker.model.name, "maps": shown})


async def _growing(pieces: Pieces) -> AsyncIterator[dict[str, Any]]:
    async for piece in pieces:
        yield asdict(piece)


def _sizes(worker: Worker, answer: Answer) -> dict[str, Any]:
    return {
        "model": worker.model.name,
        "tokens": answer.num_tokens,
        "truncated": answer.num_truncated,
    }


def _map(attention: AttentionMap) -> dict[str, Any]:
    return {
        "part": attention.part,
        "title": attention.title,
        "queries": [readable(piece) for piece in attention.queries.pieces],
        "keys": [readable(piece) for piece in attention.keys.pieces],
        "causal": attention.is_causal,
        "weights": attention.weights.round(4).astype(np.float64).round(4).tolist(),
    }


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


class JsonRoute(APIRoute):
    """Calls its endpoint with the body as a message, and sends the response it returns."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)  # refuses it
            return
        request = Request(scope, receive)
        # A web page may send JSON under another name to any server, without asking it first.
        content_type = request.headers.get("content-type", "nothing")
        if not content_type.lower().startswith("application/json"):
            raise NotJsonError(f"Content-Type must be application/json, not {content_type}")
        response = await self.endpoint(self._read(await request.body()))
        await response(scope, receive, send)

    def _read(self, body: bytes) -> BaseModel:
        assert self.body_field is not None
        message: Any = self.body_field.field_info.annotation
        try:
            return message.model_validate_json(body)
        except ValidationError as error:
            raise unprocessable(error) from None
