"""The routes that clients of OpenAI know: models, embeddings, completions."""

import base64
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

import numpy as np
from anyio.to_thread import run_sync
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from warmstart.serving.responses import (
    Json,
    Pieces,
    RefusedError,
    await_first,
    event_stream,
    stop_before,
)
from warmstart.serving.routes import VERB_PATHS, Count, Function, Name, Strict, Strings, post_routes
from warmstart.serving.service import MOST_TOKENS, Service
from warmstart.serving.worker import Call, Worker
from warmstart.settings.using import Sampling
from warmstart.tasks.text_model import GeneratedPiece, TextModel

MOST_STOPS = 16


def openai_routes(service: Service) -> list[Route]:
    """Return the routes under /v1."""
    started = int(time.time())

    def values(name: str) -> dict[str, Any]:
        model = service.choose(name).model
        return {
            "id": name,
            "object": "model",
            "created": started,
            "owned_by": "warmstart",
            "description": model.description,
            "reads_pairs": bool(model.reads_pairs),
            "abilities": [VERB_PATHS[verb][0].removeprefix("/") for verb in model.abilities],
            "labels": _labels_of(model),
        }

    async def models(request: Request) -> Response:
        """List the runs, and what each can do."""
        return Json({"object": "list", "data": [values(name) for name in service.workers]})

    async def model(request: Request) -> Response:
        """Describe one run."""
        return Json(values(request.path_params["name"]))

    posts: dict[str, Function] = {"/v1/embeddings": embeddings, "/v1/completions": completions}
    return [
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        *post_routes(service, posts),
    ]


def _labels_of(model: TextModel) -> list[str]:
    """Return the labels that a model gives to texts; the tags of words are none."""
    return list(model.classes) if hasattr(type(model), "explain") else []


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


OneOrMore = Annotated[Strings, BeforeValidator(_as_list)]
StopString = Annotated[str, Field(min_length=1, max_length=1000)]
StopStrings = Annotated[list[StopString], Field(fail_fast=True), BeforeValidator(_as_list)]


class EmbeddingsRequest(Strict):
    """Texts to turn into vectors of length 1. Lists of token numbers are not read."""

    model: Name
    input: OneOrMore = Field(min_length=1)
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = None
    user: str | None = None


async def embeddings(service: Service, body: EmbeddingsRequest) -> dict[str, Any]:
    """Turn texts into vectors."""
    answer = await service.answer(body.model, Call("embed", {"normalize": True}), body.input)
    vectors = np.asarray(answer.results, np.float32)
    if body.dimensions not in (None, vectors.shape[1]):
        raise RefusedError(
            400,
            f"dimensions {body.dimensions} is not allowed: the vectors of {body.model} have "
            f"{vectors.shape[1]}",
        )
    data = [
        {"object": "embedding", "index": index, "embedding": _encode(vector, body)}
        for index, vector in enumerate(vectors)
    ]
    usage = _usage(answer.num_tokens, 0)
    return {"object": "list", "data": data, "model": body.model, "usage": usage}


def _encode(vector: Any, body: EmbeddingsRequest) -> Any:
    if body.encoding_format == "float":
        return vector.tolist()
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


class StreamOptions(Strict):
    """What a stream ends with."""

    include_usage: bool = False


class CompletionRequest(Strict):
    """Prompts to continue. Lists of token numbers are not read."""

    model: Name
    prompt: OneOrMore = Field([""], min_length=1)
    max_tokens: Count = 16
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    n: Count = 1
    seed: int | None = Field(None, ge=0, lt=2**63)
    stop: StopStrings | None = Field(None, max_length=MOST_STOPS)
    echo: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    best_of: Literal[1] | None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    logit_bias: None = None
    logprobs: None = None
    suffix: None = None


async def completions(service: Service, body: CompletionRequest) -> dict[str, Any] | Response:
    """Continue prompts."""
    worker = service.choose(body.model)
    _check_sizes(service, worker, body)
    completion = Completion(service, worker, body)
    if body.stream:
        chunks = completion.chunks(await await_first(completion.pieces()))
        return event_stream(chunks, last="[DONE]")
    async with service.time_limit():
        return await completion.values()


def _check_sizes(service: Service, worker: Worker, body: CompletionRequest) -> None:
    """Refuse sizes whose product is too large, before anything is built."""
    num_texts = body.n * len(body.prompt)
    service.check_number(num_texts)
    num_chars, most_chars = body.n * sum(map(len, body.prompt)), service.max_bytes
    if num_chars > most_chars:
        raise RefusedError(
            413, f"n {body.n} times the prompts is more than {most_chars:,} characters: send less"
        )
    config = getattr(worker.model, "config", None)  # a model without one generates nothing
    num_tokens = min(body.max_tokens, config.max_length) if config else 0
    if num_texts * num_tokens > MOST_TOKENS:
        raise RefusedError(
            413,
            f"n {body.n} × {len(body.prompt)} prompts × {num_tokens:,} tokens are "
            f"{num_texts * num_tokens:,} tokens: one request may ask for {MOST_TOKENS:,}",
        )


class Completion:
    """One answer of /v1/completions, whole or in chunks."""

    def __init__(self, service: Service, worker: Worker, body: CompletionRequest) -> None:
        self.service, self.worker, self.body = service, worker, body
        self.seed = service.seed(body.seed)
        self.prompts = [prompt for prompt in body.prompt for _ in range(body.n)]
        self.echoes = [prompt * body.echo for prompt in self.prompts]
        self.head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
        }

    def pieces(self) -> Pieces:
        """Return the pieces of every text, one text after the other."""
        return self.service.generate(self.worker, self._generate, len(self.prompts))

    def _generate(self) -> Iterator[GeneratedPiece]:
        """Generate every text; runs in the thread of the model."""
        body, stream = self.body, self.worker.model.stream
        sampling = Sampling(temperature=body.temperature, top_p=body.top_p)
        for index, prompt in enumerate(self.prompts):
            pieces = stream(prompt, body.max_tokens, sampling, self.seed + index)
            yield from stop_before(pieces, body.stop or [])

    async def values(self) -> dict[str, Any]:
        """Return the answer when every text is complete."""
        choices: list[dict[str, Any]] = []
        text, num_generated = "", 0
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                text += piece.text
                num_generated += piece.end is None
                if piece.end is not None:
                    index = len(choices)
                    choices.append(_choice(index, self.echoes[index] + text, piece.end))
                    text = ""
        return {**self.head, "choices": choices, "usage": await self._usage(num_generated)}

    async def chunks(self, pieces: Pieces) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer as it grows, text after text."""
        index, num_tokens, is_new = 0, 0, True
        async for piece in pieces:
            if is_new and self.body.echo:
                yield {**self.head, "choices": [_choice(index, self.echoes[index], None)]}
            if piece.text or piece.end:
                yield {**self.head, "choices": [_choice(index, piece.text, piece.end)]}
            is_new = piece.end is not None
            index += is_new
            num_tokens += not is_new
        if self.body.stream_options and self.body.stream_options.include_usage:
            yield {**self.head, "choices": [], "usage": await self._usage(num_tokens)}

    async def _usage(self, num_generated: int) -> dict[str, int]:
        sizes = await run_sync(self.worker.model.measure, self.body.prompt)
        return _usage(sum(size.num_tokens for size in sizes), num_generated)


def _choice(index: int, text: str, end: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": end}


def _usage(num_read: int, num_generated: int) -> dict[str, int]:
    return {
        "prompt_tokens": num_read,
        "completion_tokens": num_generated,
        "total_tokens": num_read + num_generated,
    }
