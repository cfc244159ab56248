"""What a person or a monitor opens: the page, the documentation, health and metrics."""

from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CONTENT_TYPE_LATEST

from warmstart.serving.responses import Json
from warmstart.serving.service import Service

ASSETS = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
# The page loads nothing from elsewhere, sends nothing elsewhere, and is shown in no other page.
POLICY = ("default-src 'self'", "img-src data:", "frame-ancestors 'none'", "base-uri 'none'")
SAFE = {
    "Content-Security-Policy": "; ".join(POLICY),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes(service: Service, app: FastAPI) -> APIRouter:
    """Return the routes that need no model."""
    routes = APIRouter(tags=["server"])

    def asset(path: str) -> Any:
        name, media_type = ASSETS[path]
        return lambda: Response(_asset(name), media_type=media_type, headers=SAFE)

    def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()), headers=SAFE)

    def health() -> Response:
        """Say whether the thread of every run works, and how many texts wait for it."""
        workers = service.runs.workers
        is_ok = all(worker.is_alive for worker in workers.values())
        waiting = {name: worker.num_waiting for name, worker in workers.items()}
        status = "ok" if is_ok else "failed"
        return Json({"status": status, "waiting": waiting}, 200 if is_ok else 503)

    def metrics() -> Response:
        """Return counts and times in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    for path in ASSETS:
        routes.add_api_route(path, asset(path), methods=["GET"], include_in_schema=False)
    routes.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    routes.add_api_route("/health", health, methods=["GET"])
    routes.add_api_route("/metrics", metrics, methods=["GET"])
    return routes


@cache
def _asset(name: str) -> bytes:
    return files("warmstart.serving").joinpath("page", name).read_bytes()


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
            | {key: field.get(key, "") for key in ("default", "description")}
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
