"""A route that reads a JSON body into a message.

FastAPI describes it in the OpenAPI schema. What FastAPI offers beyond that, dependencies and
their stacks of contexts, is not used here and takes as long as a small model on a short text.
"""

from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from warmstart.serving.refusals import NotJsonError, unprocessable


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
