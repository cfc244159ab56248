"""The route of every verb, and the JSON it takes and returns."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from warmstart.decoding.translator import Translation
from warmstart.model.attention_weights import AttentionMap, readable
from warmstart.serving.responses import (
    Json,
    Pieces,
    RefusedError,
    await_first,
    event_stream,
    read_whole,
)
from warmstart.serving.service import MOST_TOKENS, Service
from warmstart.serving.worker import Call
from warmstart.settings.shared import Pooling
from warmstart.settings.using import Sampling
from warmstart.tasks.explaining import MOST_READINGS, Explanation, num_readings
from warmstart.tasks.mask_filler import split_at_masks
from warmstart.tasks.text_model import FilledText, TextSize

Function = Callable[[Service, Any], Awaitable[Any]]  # from the service and a message to the answer
MOST_WEIGHTS = 2_000_000  # attention weights in one answer
MOST_WORDS = 50_000  # probable words in one answer
EXPLAINED = 4  # times the largest body: characters to read without each word in turn
Strings = Annotated[
    list[str], Field(fail_fast=True)
]  # one error, not one for each of half a million
Texts = Annotated[Strings, Field(min_length=1, description="texts; one result for each")]
Count = Annotated[int, Field(ge=1, lt=2**63)]
Name = Annotated[str, Field(max_length=1000)]
NumTokens = Annotated[int, Field(description="tokens that were read")]
NumTruncated = Annotated[int, Field(description="texts that were too long and lost a part")]


@dataclass(frozen=True, eq=False)
class JsonEndpoint:
    """Calls a function with the service and the body as a message, and sends its answer."""

    service: Service
    function: Function

    @cached_property
    def message(self) -> type[BaseModel]:
        """Return the type of the body."""
        message: type[BaseModel] = get_type_hints(self.function)["body"]
        return message

    @property
    def answer(self) -> Any:
        """Return the type of the answer, if the function declares one."""
        declared = get_type_hints(self.function)["return"]
        return next(filter(is_dataclass, (declared, *get_args(declared))), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # A web page may send JSON as plain text to any server, without asking the server first.
        content_type = request.headers.get("content-type", "nothing")
        if not content_type.lower().startswith("application/json"):
            raise RefusedError(415, f"Content-Type must be application/json, not {content_type}")
        try:
            message = self.message.model_validate_json(await request.body())
        except ValidationError as error:
            raise _unprocessable(error) from None
        answer = await self.function(self.service, message)
        response = answer if isinstance(answer, Response) else Json(answer)
        await response(scope, receive, send)


def _unprocessable(error: ValidationError) -> RefusedError:
    """Return a refusal that names the first problem of a body."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return RefusedError(400, f"the body is not valid JSON: {first['ctx']['error']}")
    field = ".".join(map(str, first["loc"]))
    return RefusedError(422, f"{field or 'the body'}: {first['msg']}")


def post_routes(service: Service, functions: Mapping[str, Function]) -> list[Route]:
    """Return a route from each path to a function."""
    return [
        Route(path, JsonEndpoint(service, function), methods=["POST"])
        for path, function in functions.items()
    ]


class Strict(BaseModel):
    """A message of which nothing is ignored, and whose numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Message(Strict):
    """What every request may have."""

    model: Name | None = Field(None, description="name of a run; needed if several can answer")


class ClassifyRequest(Message):
    """Texts to label, or pairs of texts."""

    texts: Texts
    texts2: Strings | None = Field(None, description="second texts, for a model of pairs")
    explain: bool = Field(
        False, description="tell what each word changes; each word counts as a text"
    )
    unusual: bool = Field(
        False, description="mark texts unlike those trained on; the server needs --unusual"
    )


@dataclass(frozen=True)
class ClassifyAnswer:
    """One prediction for every text, as `predict --json` prints it.

    With `explain` each has `words`, and of a long text `sentences`: their `text`, their `weight`
    and, where it was computed, the prediction `without` them. With `unusual` each has `unusual` and
    `distance`.
    """

    model: str
    tokens: NumTokens
    truncated: NumTruncated
    predictions: Sequence[dict[str, Any]]


async def classify(service: Service, body: ClassifyRequest) -> ClassifyAnswer:
    """Label texts."""
    if body.unusual:
        return await _mark_unusual(service, body)
    if body.explain:
        return await _explain(service, body)
    answer = await service.answer(body.model, Call("predict"), body.texts, body.texts2)
    return ClassifyAnswer(answer.model, answer.num_tokens, answer.num_truncated, answer.results)


async def _mark_unusual(service: Service, body: ClassifyRequest) -> ClassifyAnswer:
    """Label texts, and mark those that are unlike the texts that the run was trained on."""
    worker = service.choose(body.model, "predict")
    marks = await service.compare_with_usual(worker, body.texts, body.texts2)
    answer = await classify(service, body.model_copy(update={"unusual": False}))
    pairs = zip(answer.predictions, marks, strict=True)
    marked = [{**_values(prediction), **asdict(mark)} for prediction, mark in pairs]
    return replace(answer, predictions=marked)


def _values(prediction: Any) -> dict[str, Any]:
    return prediction if isinstance(prediction, dict) else asdict(prediction)


async def _explain(service: Service, body: ClassifyRequest) -> ClassifyAnswer:
    """Label texts, and tell what each word changes; every reading of a text counts as a text."""
    service.check_number(sum(max(1, num_readings(text)) for text in body.texts))
    pairs = zip_longest(body.texts, body.texts2 or (), fillvalue="")
    num_chars = sum(num_readings(text) * len(text + text2) for text, text2 in pairs)
    if num_chars > EXPLAINED * service.max_bytes:
        most = f"{EXPLAINED * service.max_bytes:,} characters"
        raise RefusedError(
            413, f"every word is left out once, which is more than {most}: send less"
        )
    name = service.choose(body.model, "predict").model.name
    call = Call("explain", cost=MOST_READINGS)
    answer = await service.answer(name, call, body.texts, body.texts2)
    predictions = [_explained(explanation) for explanation in answer.results]
    return ClassifyAnswer(answer.model, answer.num_tokens, answer.num_truncated, predictions)


def _explained(explanation: Explanation) -> dict[str, Any]:
    """Return a prediction with the weights of its words, as JSON values."""
    values = asdict(explanation)
    prediction: dict[str, Any] = values.pop("prediction")
    return {**prediction, **{name: parts for name, parts in values.items() if parts}}


class AnswerRequest(Message):
    """Questions about passages."""

    questions: Texts
    passages: Strings = Field(description="the passage of each question")


@dataclass(frozen=True)
class AnswerAnswer:
    """One answer for every question: a part of its passage, or none."""

    model: str
    tokens: NumTokens
    truncated: NumTruncated
    answers: Sequence[dict[str, Any]]


async def answer(service: Service, body: AnswerRequest) -> AnswerAnswer:
    """Answer questions by parts of passages."""
    found = await service.answer(body.model, Call("answer"), body.questions, body.passages)
    return AnswerAnswer(found.model, found.num_tokens, found.num_truncated, found.results)


class EmbedRequest(Message):
    """Texts to turn into vectors."""

    texts: Texts
    pooling: Pooling = Field("mean", description="positions of the text vector")
    layer: int | None = Field(
        None, ge=0, lt=2**63, description="block of the vectors; default: the last"
    )
    normalize: bool = Field(False, description="scale every vector to length 1")


@dataclass(frozen=True)
class EmbedAnswer:
    """One vector for every text."""

    model: str
    tokens: NumTokens
    truncated: NumTruncated
    vectors: list[list[float]]


async def embed(service: Service, body: EmbedRequest) -> EmbedAnswer:
    """Turn texts into vectors."""
    call = Call("embed", body.model_dump(include={"pooling", "layer", "normalize"}))
    answer = await service.answer(body.model, call, body.texts)
    vectors = np.asarray(answer.results).tolist()
    return EmbedAnswer(answer.model, answer.num_tokens, answer.num_truncated, vectors)


class FillMaskRequest(Message):
    """Texts with [MASK] where words are missing."""

    texts: Texts
    top_k: int = Field(5, ge=1, le=1000, description="words for each mask")


@dataclass(frozen=True)
class FillMaskAnswer:
    """One filled text for every text."""

    model: str
    texts: Sequence[FilledText]


async def fill_mask(service: Service, body: FillMaskRequest) -> FillMaskAnswer:
    """Restore masked words."""
    call = Call("fill_mask", {"top_k": body.top_k}, check=partial(_check_words, body))
    answer = await service.answer(body.model, call, body.texts)
    return FillMaskAnswer(answer.model, answer.results)


def _check_words(body: FillMaskRequest, model: Any, _: Sequence[TextSize]) -> None:
    """Refuse an answer of too many words."""
    num_masks = sum(len(split_at_masks(model.tokenizer, text)) - 1 for text in body.texts)
    if num_masks * body.top_k > MOST_WORDS:
        raise RefusedError(
            413,
            f"{num_masks:,} masks with top_k {body.top_k:,} are {num_masks * body.top_k:,} words: "
            f"one answer may have {MOST_WORDS:,}",
        )


class TranslateRequest(Message):
    """Sentences to translate."""

    texts: Texts
    beam: int = Field(5, ge=1, le=64, description="hypotheses; 1: greedy")
    n_best: int = Field(1, ge=1, le=64, description="translations of each sentence")
    length_penalty: float = Field(1.0, ge=0, le=10)


@dataclass(frozen=True)
class TranslateAnswer:
    """The translations of every sentence, best first."""

    model: str
    translations: Sequence[list[Translation]]


async def translate(service: Service, body: TranslateRequest) -> TranslateAnswer:
    """Translate sentences."""
    options = body.model_dump(include={"beam", "n_best", "length_penalty"})
    call = Call("translate", options, cost=body.beam, check=partial(_check_beam, body.beam))
    answer = await service.answer(body.model, call, body.texts)
    return TranslateAnswer(answer.model, answer.results)


def _check_beam(beam: int, _: Any, sizes: Sequence[TextSize]) -> None:
    """Refuse too many tokens for the size of the beam."""
    num_tokens = sum(size.num_tokens for size in sizes)
    if num_tokens * beam > MOST_TOKENS:
        raise RefusedError(
            413,
            f"{num_tokens:,} tokens with beam {beam} are too many for one request: it may have "
            f"{MOST_TOKENS // beam:,} of them",
        )


class GenerateRequest(Message):
    """A prompt to continue."""

    prompt: str = Field("", description="text to continue")
    max_tokens: Count = Field(100, description="tokens to add, at most")
    temperature: float = Field(0.8, ge=0, description="0: the most likely token each time")
    top_k: Count | None = None
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, lt=2**63, description="the same seed, the same text")
    stream: bool = Field(False, description="send the text as it grows, as server-sent events")


@dataclass(frozen=True)
class GenerateAnswer:
    """The text after the prompt, and why it ends."""

    model: str
    text: str
    end: Literal["stop", "length"] | None
    seed: int


async def generate(service: Service, body: GenerateRequest) -> GenerateAnswer | Response:
    """Continue a prompt."""
    worker = service.choose(body.model, "generate")
    sampling = Sampling(**body.model_dump(include={"temperature", "top_k", "top_p"}))
    seed = service.seed(body.seed)
    start = partial(worker.model.stream, body.prompt, body.max_tokens, sampling, seed)
    pieces = service.generate(worker, start)
    if body.stream:
        return event_stream(_events(await await_first(pieces)))
    async with service.time_limit():
        text = await read_whole(pieces)
    return GenerateAnswer(worker.model.name, text.text, text.end, seed)


async def _events(pieces: Pieces) -> AsyncIterator[dict[str, Any]]:
    async for piece in pieces:
        yield asdict(piece)


class AttentionRequest(Message):
    """A text to look into."""

    text: str
    text2: str | None = Field(None, description="second text, for a model of pairs")
    target: str | None = Field(None, description="translation; default: the model's own")
    words: bool = Field(False, description="join the pieces of each word")


@dataclass(frozen=True)
class AttentionMapAnswer:
    """The weights of one part of the model: layers, heads, queries, keys."""

    part: str
    title: str
    queries: list[str]
    keys: list[str]
    causal: bool
    weights: list[list[list[list[float]]]]


@dataclass(frozen=True)
class AttentionAnswer:
    """The attention of a text, part by part."""

    model: str
    tokens: NumTokens
    truncated: NumTruncated
    maps: list[AttentionMapAnswer]


async def attention(service: Service, body: AttentionRequest) -> AttentionAnswer:
    """Return the attention weights of every layer and head on a text."""
    texts2 = None if body.text2 is None else [body.text2]
    call = Call("attention", {"target": body.target}, check=_check_attention)
    answer = await service.answer(body.model, call, [body.text], texts2)
    parts = answer.results[0].values()
    _check_weights(sum(weights.weights.size for weights in parts))  # those of a target too
    maps = [_map(weights.by_word() if body.words else weights) for weights in parts]
    return AttentionAnswer(answer.model, answer.num_tokens, answer.num_truncated, maps)


def _check_attention(model: Any, sizes: Sequence[TextSize]) -> None:
    """Refuse a text with too many weights before they are computed."""
    _check_weights(model.config.depth * model.config.heads * sizes[0].num_tokens ** 2)


def _check_weights(num_weights: int) -> None:
    if num_weights > MOST_WEIGHTS:
        raise RefusedError(
            413, f"the text has more than {MOST_WEIGHTS:,} attention weights: shorten it"
        )


def _map(weights: AttentionMap) -> AttentionMapAnswer:
    return AttentionMapAnswer(
        part=weights.part,
        title=weights.title,
        queries=[readable(piece) for piece in weights.queries.pieces],
        keys=[readable(piece) for piece in weights.keys.pieces],
        causal=weights.is_causal,
        weights=weights.weights.round(4).astype(np.float64).round(4).tolist(),
    )


# The path and the function of each verb of a model.
VERB_PATHS: dict[str, tuple[str, Function]] = {
    "predict": ("/classify", classify),
    "answer": ("/answer", answer),
    "embed": ("/embed", embed),
    "attention": ("/attention", attention),
    "generate": ("/generate", generate),
    "translate": ("/translate", translate),
    "fill_mask": ("/fill-mask", fill_mask),
}
