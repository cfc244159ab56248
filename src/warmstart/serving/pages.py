"""What a person or a monitor opens: the page, the documentation, health and metrics."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from warmstart.serving.responses import Json
from warmstart.serving.routes import JsonEndpoint
from warmstart.serving.service import Service
from warmstart.version import package_version

ASSETS = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/tables.js": ("tables.js", "text/javascript"),
}
# The page loads nothing from elsewhere, sends nothing elsewhere, and is shown in no other page.
POLICY = ("default-src 'self'", "img-src data:", "frame-ancestors 'none'", "base-uri 'none'")
SAFE = {
    "Content-Security-Policy": "; ".join(POLICY),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def monitor_routes(service: Service) -> list[Route]:
    """Return the routes for monitors."""

    async def health(request: Request) -> Response:
        """Say whether the thread of every run works, and how many texts wait for it."""
        workers = service.workers
        is_ok = all(worker.is_alive for worker in workers.values())
        waiting = {name: worker.num_waiting for name, worker in workers.items()}
        status = "ok" if is_ok else "failed"
        return Json({"status": status, "waiting": waiting}, 200 if is_ok else 503)

    async def metrics(request: Request) -> Response:
        """Return counts and times in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/health", health), Route("/metrics", metrics)]


def page_routes(documented: Sequence[Route]) -> list[Route]:
    """Return the routes of the page, and of the documentation of `documented`."""
    schema = openapi(documented)
    documentation = docs_page(schema)  # once: it takes longer than any answer

    async def asset(request: Request) -> Response:
        name, media_type = ASSETS[request.scope["path"]]
        return Response(_read_asset(name), media_type=media_type, headers=SAFE)

    async def docs(request: Request) -> Response:
        return HTMLResponse(documentation, headers=SAFE)

    async def openapi_json(request: Request) -> Response:
        return Json(schema)

    pages = {**dict.fromkeys(ASSETS, asset), "/docs": docs, "/openapi.json": openapi_json}
    return [Route(path, endpoint) for path, endpoint in pages.items()]


@cache
def _read_asset(name: str) -> bytes:
    return files("warmstart.serving").joinpath("page", name).read_bytes()


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """Describe routes in the form of OpenAPI, with the types that their functions declare."""
    endpoints = [route.endpoint for route in routes if isinstance(route.endpoint, JsonEndpoint)]
    types: list[tuple[Any, Literal["validation", "serialization"]]] = [
        *((endpoint.message, "validation") for endpoint in endpoints),
        *((endpoint.answer, "serialization") for endpoint in endpoints if endpoint.answer),
    ]
    schemas, definitions = TypeAdapter.json_schemas(
        [(kind, mode, TypeAdapter(kind)) for kind, mode in types],
        ref_template="#/components/schemas/{model}",
    )
    by_type = {kind: schema for (kind, _), schema in schemas.items()}
    description, version = "Trained runs behind HTTP.", package_version()
    return {
        "openapi": "3.1.0",
        "info": {"title": "warmstart", "description": description, "version": version},
        "paths": {route.path_format: _operations(route, by_type) for route in routes},
        "components": {"schemas": definitions["$defs"]},
    }


def _operations(route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe the one method of a route."""

    def content(kind: Any) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": schemas.get(kind, {})}}}

    endpoint: Any = route.endpoint
    is_post = isinstance(endpoint, JsonEndpoint)
    function = endpoint.function if is_post else endpoint
    answer = content(endpoint.answer if is_post else None)
    operation = {
        "summary": function.__name__.replace("_", " ").title(),
        "description": function.__doc__,
        "operationId": function.__name__,
        "responses": {"200": {"description": "Successful Response", **answer}},
    }
    if not is_post:
        named = {"in": "path", "required": True, "schema": {"type": "string"}}
        return {
            "get": operation
            | {"parameters": [{"name": n, **named} for n in route.param_convertors]}
        }
    return {"post": operation | {"requestBody": {**content(endpoint.message), "required": True}}}


def docs_page(schema: dict[str, Any]) -> str:
    """Return the documentation of an OpenAPI schema as a page that needs no network."""
    loader = PackageLoader("warmstart.serving", "page")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    definitions = schema["components"]["schemas"]

    def fields(content: dict[str, Any]) -> list[dict[str, Any]]:
        reference = content["content"]["application/json"]["schema"].get("$ref", "")
        body = definitions.get(reference.rsplit("/", 1)[-1], {})
        return [
            {
                "name": name,
                "type": _type_name(field),
                "is_required": name in body.get("required", ()),
            }
            | {key: field.get(key) for key in ("default", "description")}
            for name, field in body.get("properties", {}).items()
        ]

    return environment.get_template("docs.html").render(schema=schema, fields=fields)


def _type_name(field: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "anyOf" in field:
        return " or ".join(_type_name(choice) for choice in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"].rsplit("/", 1)[-1])
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_type_name(field.get('items', {}))}"
    return str(field.get("type", "any"))
