"""The routes that clients of OpenAI know: models, embeddings, completions."""

import base64
import time
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warmstart.serving.responses import (
    Json,
    Pieces,
    RefusedError,
    event_stream,
    opened,
    until,
    whole,
)
from warmstart.serving.routes import PATHS, JsonRoute
from warmstart.serving.service import Generation, Service
from warmstart.serving.worker import Worker, call
from warmstart.settings.using import Sampling


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Strings = Annotated[list[str], BeforeValidator(_as_list)]


class EmbeddingsRequest(BaseModel):
    """Texts to turn into vectors of length 1. Lists of token numbers are not read."""

    model_config = ConfigDict(extra="forbid")

    model: str
    input: Strings = Field(min_length=1)
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class StreamOptions(BaseModel):
    """What a stream ends with."""

    model_config = ConfigDict(extra="forbid")

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """Prompts to continue. Lists of token numbers are not read."""

    model_config = ConfigDict(extra="forbid")  # nothing that would change the text is ignored

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


class OpenAIRoutes:
    """The routes under /v1."""

    def __init__(self, service: Service) -> None:
        self.service, self.started = service, int(time.time())

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])
        routes.add_api_route("/models", self.models, methods=["GET"])
        routes.add_api_route("/models/{name:path}", self.model, methods=["GET"])
        for path, endpoint in (
            ("/embeddings", self.embeddings),
            ("/completions", self.completions),
        ):
            routes.add_api_route(path, endpoint, methods=["POST"], route_class_override=JsonRoute)
        return routes

    async def models(self) -> Response:
        """List the runs, and what each can do."""
        return Json(
            {"object": "list", "data": [self._model(name) for name, _ in self.service.runs]}
        )

    async def model(self, name: str) -> Response:
        """Describe one run."""
        self.service.runs.choose(name, "")
        return Json(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        model = self.service.runs.choose(name, "").model
        return {
            "id": name,
            "object": "model",
            "created": self.started,
            "owned_by": "warmstart",
            "description": model.description,
            "reads_pairs": bool(model.reads_pairs),
            "abilities": [PATHS[verb].removeprefix("/") for verb in model.abilities],
        }

    async def embeddings(self, body: EmbeddingsRequest) -> Response:
        """Turn texts into vectors."""
        worker = self.service.runs.choose(body.model, "embed")
        answer = await self.service.answer(worker, call("embed", normalize=True), body.input)
        vectors = np.asarray(answer.results, np.float32)
        if body.dimensions not in (None, vectors.shape[1]):
            raise RefusedError(
                f"dimensions {body.dimensions} is not allowed: the vectors of {body.model} have "
                f"{vectors.shape[1]}"
            )
        data = [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, body)}
            for index, vector in enumerate(vectors)
        ]
        usage = _usage(answer.num_tokens, 0)
        return Json({"object": "list", "data": data, "model": body.model, "usage": usage})

    async def completions(self, body: CompletionRequest) -> Response:
        """Continue prompts."""
        worker = self.service.runs.choose(body.model, "generate")
        prompts = [prompt for prompt in body.prompt for _ in range(body.n)]
        self.service.limits.check_texts(len(prompts))
        seed = self.service.seed(body.seed)
        texts = [
            await opened(self._pieces(worker, body, prompt, seed + index))
            for index, prompt in enumerate(prompts)
        ]
        completion = Completion(worker, body, prompts)
        if body.stream:
            return event_stream(completion.chunks(texts), last="[DONE]")
        return Json(await completion.values(texts))

    def _pieces(self, worker: Worker, body: CompletionRequest, prompt: str, seed: int) -> Pieces:
        sampling = Sampling(temperature=body.temperature, top_p=body.top_p)
        generation = Generation(prompt, body.max_tokens, sampling, seed)
        return until(self.service.generate(worker, generation), body.stop or [])


class Completion:
    """One answer of /v1/completions, whole or in chunks."""

    def __init__(self, worker: Worker, body: CompletionRequest, prompts: list[str]) -> None:
        self.worker, self.body, self.prompts = worker, body, prompts
        self.head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
        }

    async def values(self, texts: list[Pieces]) -> dict[str, Any]:
        """Return the answer when every text is complete."""
        wholes = [await whole(text) for text in texts]
        choices = [
            _choice(index, self._echo(index) + text.text, text.end)
            for index, text in enumerate(wholes)
        ]
        usage = self._usage(sum(text.num_tokens for text in wholes))
        return {**self.head, "choices": choices, "usage": usage}

    async def chunks(self, texts: list[Pieces]) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer as it grows, text after text."""
        num_tokens = 0
        for index, text in enumerate(texts):
            if self.body.echo:
                yield {**self.head, "choices": [_choice(index, self._echo(index), None)]}
            async for piece in text:
                num_tokens += piece.end is None
                if piece.text or piece.end:
                    yield {**self.head, "choices": [_choice(index, piece.text, piece.end)]}
        if self.body.stream_options and self.body.stream_options.include_usage:
            yield {**self.head, "choices": [], "usage": self._usage(num_tokens)}

    def _echo(self, index: int) -> str:
        return self.prompts[index] * self.body.echo

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


def _encoded(vector: Any, body: EmbeddingsRequest) -> Any:
    if body.encoding_format == "float":
        return vector.tolist()
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
