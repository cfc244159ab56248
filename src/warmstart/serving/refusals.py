"""What a request can be refused for, as an HTTP status and one sentence."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from warmstart.errors import WarmstartError


class RefusedError(Exception):
    """A request that gets no answer but this one."""

    status = 400
    headers: Mapping[str, str] = {}


class UnknownError(RefusedError):
    """It asks for something that is not here."""

    status = 404


class SlowBodyError(RefusedError):
    """Its body did not arrive in time."""

    status = 408


class TooLargeError(RefusedError):
    """It is larger than the server allows."""

    status = 413


class NotJsonError(RefusedError):
    """Its body is not announced as JSON."""

    status = 415


class UnprocessableError(RefusedError):
    """Its JSON has another form than the endpoint expects."""

    status = 422


class BusyError(RefusedError):
    """Too much is waiting already."""

    status = 429
    headers: Mapping[str, str] = {"Retry-After": "1"}


class UnauthorizedError(RefusedError):
    """It does not carry the token."""

    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class ClosingError(RefusedError):
    """The server is shutting down."""

    status = 503
    headers: Mapping[str, str] = {"Retry-After": "5"}


class DeadError(RefusedError):
    """The thread that would answer has died."""

    status = 503


class LateError(RefusedError):
    """The answer takes longer than the server allows."""

    status = 504


class Json(Response):
    """An answer as strict JSON: a number that is not finite becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content, inf_nan_mode="null")  # a vector takes a tenth of json's time


def error_values(status: int, message: str) -> dict[str, Any]:
    """Return an error in the form that clients of OpenAI know."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def refused(error: RefusedError) -> Json:
    """Return the response to a request that is refused."""
    return Json(error_values(error.status, str(error)), error.status, dict(error.headers))


def handle_errors(app: FastAPI) -> None:
    """Turn every error of a route into one sentence."""

    @app.exception_handler(RefusedError)
    async def _(request: Request, error: RefusedError) -> Response:
        return refused(error)

    @app.exception_handler(WarmstartError)
    async def _(request: Request, error: WarmstartError) -> Response:
        return refused(RefusedError(str(error)))

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}"
        return Json(error_values(error.status_code, message), error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> Response:
        return Json(error_values(500, "the server failed; its log says why"), 500)


def unprocessable(error: ValidationError) -> RefusedError:
    """Return the first problem of a body."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return RefusedError(f"the body is not valid JSON: {first['ctx']['error']}")
    field = ".".join(map(str, first["loc"]))
    return UnprocessableError(f"{field or 'the body'}: {first['msg']}")
