"""The routes that clients of OpenAI know: models, embeddings, completions."""

import base64
import time
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from warmstart.serving.responses import (
    Json,
    Pieces,
    RefusedError,
    await_first,
    event_stream,
    read_whole,
    stop_before,
)
from warmstart.serving.routes import VERB_PATHS, Function, post_routes
from warmstart.serving.service import Service
from warmstart.serving.worker import Call, Worker
from warmstart.settings.using import Sampling


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


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Strings = Annotated[list[str], BeforeValidator(_as_list)]


class Strict(BaseModel):
    """A message of which nothing is ignored."""

    model_config = ConfigDict(extra="forbid")


class EmbeddingsRequest(Strict):
    """Texts to turn into vectors of length 1. Lists of token numbers are not read."""

    model: str
    input: Strings = Field(min_length=1)
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
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

    model: str
    prompt: Strings = Field([""], min_length=1)
    max_tokens: int = Field(16, ge=1)
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1)
    seed: int | None = Field(None, ge=0, lt=2**63)
    stop: Strings | None = None
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
    prompts = [prompt for prompt in body.prompt for _ in range(body.n)]
    service.check_number(prompts)
    seed = service.seed(body.seed)
    sampling = Sampling(temperature=body.temperature, top_p=body.top_p)
    texts = []
    for index, prompt in enumerate(prompts):
        start = partial(worker.model.stream, prompt, body.max_tokens, sampling, seed + index)
        pieces = stop_before(service.generate(worker, start), body.stop or [])
        texts.append(await await_first(pieces))
    completion = Completion(worker, body, prompts)
    if body.stream:
        return event_stream(completion.chunks(texts), last="[DONE]")
    return await completion.values(texts)


class Completion:
    """One answer of /v1/completions, whole or in chunks."""

    def __init__(self, worker: Worker, body: CompletionRequest, prompts: list[str]) -> None:
        self.worker, self.body = worker, body
        self.echoes = [prompt * body.echo for prompt in prompts]
        self.head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
        }

    async def values(self, texts: list[Pieces]) -> dict[str, Any]:
        """Return the answer when every text is complete."""
        choices, num_generated = [], 0
        for index, pieces in enumerate(texts):
            text, num_tokens = await read_whole(pieces)
            choices.append(_choice(index, self.echoes[index] + text.text, text.end))
            num_generated += num_tokens
        return {**self.head, "choices": choices, "usage": self._usage(num_generated)}

    async def chunks(self, texts: list[Pieces]) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer as it grows, text after text."""
        num_tokens = 0
        for index, pieces in enumerate(texts):
            if self.body.echo:
                yield {**self.head, "choices": [_choice(index, self.echoes[index], None)]}
            async for piece in pieces:
                num_tokens += piece.end is None
                if piece.text or piece.end:
                    yield {**self.head, "choices": [_choice(index, piece.text, piece.end)]}
        if self.body.stream_options and self.body.stream_options.include_usage:
            yield {**self.head, "choices": [], "usage": self._usage(num_tokens)}

    def _usage(self, num_generated: int) -> dict[str, int]:
        sizes = self.worker.model.measure(self.body.prompt)
        return _usage(sum(size.num_tokens for size in sizes), num_generated)


def _choice(index: int, text: str, end: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": end}


def _usage(num_read: int, num_generated: int) -> dict[str, int]:
    return {
        "prompt_tokens": num_read,
        "completion_tokens": num_generated,
        "total_tokens": num_read + num_generated,
    }
