"""The routes of every verb. Which run can do what is asked of the run."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

from warmstart.decoding.sample import Sampling
from warmstart.results.attention_weights import AttentionMap, readable
from warmstart.serving import messages as m
from warmstart.serving.calls import AttentionCall, call
from warmstart.serving.jobs import Answer
from warmstart.serving.json_route import JsonRoute
from warmstart.serving.refusals import Json, TooLargeError
from warmstart.serving.service import Generation, Service
from warmstart.serving.streaming import Pieces, event_stream, opened, whole
from warmstart.serving.worker import Worker

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


class VerbRoutes:
    """One route for each verb."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter(tags=["verbs"], route_class=JsonRoute)
        answers: dict[str, tuple[Callable[..., Any], type[BaseModel]]] = {
            "predict": (self.classify, m.ClassifyAnswer),
            "embed": (self.embed, m.EmbedAnswer),
            "attention": (self.attention, m.AttentionAnswer),
            "generate": (self.generate, m.GenerateAnswer),
            "translate": (self.translate, m.TranslateAnswer),
            "fill_mask": (self.fill_mask, m.FillMaskAnswer),
        }
        for verb, (endpoint, answer) in answers.items():
            routes.add_api_route(PATHS[verb], endpoint, methods=["POST"], response_model=answer)
        return routes

    async def classify(self, body: m.ClassifyRequest) -> Response:
        """Label texts."""
        worker = self.service.runs.choose(body.model, "predict")
        answer = await self.service.answer(worker, call("predict"), body.texts, body.texts2)
        return Json({**_sizes(worker, answer), "predictions": answer.results})

    async def embed(self, body: m.EmbedRequest) -> Response:
        """Turn texts into vectors."""
        worker = self.service.runs.choose(body.model, "embed")
        options = body.model_dump(include={"pooling", "layer", "normalize"})
        answer = await self.service.answer(worker, call("embed", **options), body.texts)
        return Json({**_sizes(worker, answer), "vectors": np.asarray(answer.results).tolist()})

    async def fill_mask(self, body: m.FillMaskRequest) -> Response:
        """Restore masked words."""
        worker = self.service.runs.choose(body.model, "fill_mask")
        fill = call("fill_mask", top_k=body.top_k)
        answer = await self.service.answer(worker, fill, body.texts)
        return Json({"model": worker.model.name, "texts": answer.results})

    async def translate(self, body: m.TranslateRequest) -> Response:
        """Translate sentences."""
        worker = self.service.runs.choose(body.model, "translate")
        options = body.model_dump(include={"beam", "n_best", "length_penalty"})
        answer = await self.service.answer(worker, call("translate", **options), body.texts)
        return Json({"model": worker.model.name, "translations": answer.results})

    async def generate(self, body: m.GenerateRequest) -> Response:
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

    async def attention(self, body: m.AttentionRequest) -> Response:
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
