"""Settings dataclasses -> command-line options.

A field is a flag: its name, help, limits and default stand in `warmstart.config` alone.
"""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from warmstart.config.settings import (
    Settings,
    bare_type,
    field_types,
    flag_of,
    key_of,
    option_of,
    read_settings_file,
)

S = TypeVar("S", bound=Settings)

CONFIG = typer.Option("--config", help="TOML file, or a run's config.json, with these settings")
JSON = typer.Option("--json", help="print JSON")


def add_command(
    app: typer.Typer,
    name: str,
    settings: type[S],
    run: Callable[..., None],
    example: str,
    has_json: bool = False,
) -> None:
    """Add a command that takes the settings as options and hands them to `run`."""
    fields = [f for f in dataclasses.fields(settings) if not option_of(f).hidden]
    hints = field_types(settings)

    def command(**given: Any) -> None:
        config: Path | None = given.pop("config")
        extra = {"as_json": given.pop("as_json")} if has_json else {}
        values = read_settings_file(config) if config else {}
        for field in fields:
            value = _parsed(field, hints[field.name], given[field.name])
            if value is not None:
                values[key_of(field)] = value
        run(settings.from_values(values), **extra)

    parameters = [_parameter(field, hints[field.name]) for field in fields]
    parameters.append(_keyword("config", Annotated[Path | None, CONFIG], None))
    if has_json:
        parameters.append(_keyword("as_json", Annotated[bool, JSON], False))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = f"{inspect.getdoc(run)}\n\nExample: {example}"
    app.command(name)(command)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _parameter(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    kind, _ = bare_type(hint)
    option = option_of(field)
    typed: Any = _flag_type(kind, option.listed)
    if option.positional:
        info = typer.Argument(help=option.help, metavar=key_of(field).upper(), show_default=False)
    else:
        info = typer.Option(*_names(field, kind), help=option.help, **_shown(field, kind))
    return _keyword(field.name, Annotated[typed | None, info], None)


def _names(field: "dataclasses.Field[Any]", kind: Any) -> list[str]:
    flag, short = flag_of(field), option_of(field).short
    if kind is bool:
        return [f"{flag}/--no-{flag.removeprefix('--')}"]
    return [flag, *([short] if short else [])]


def _shown(field: "dataclasses.Field[Any]", kind: Any) -> dict[str, Any]:
    default = field.default
    if default is dataclasses.MISSING:
        shown: Any = "required"
    elif default in (None, ()):
        shown = False
    elif isinstance(default, tuple):
        shown = ",".join(map(str, default))
    else:
        shown = ("yes" if default else "no") if kind is bool else str(default)
    metavar = {}
    if get_origin(kind) is Literal:
        metavar = {"metavar": "|".join(map(str, get_args(kind)))}
    return {"show_default": shown, **metavar}


def _flag_type(kind: Any, listed: bool) -> Any:
    if get_origin(kind) is tuple:
        return str if listed else list[str]
    return str if get_origin(kind) is Literal else kind


def _parsed(field: "dataclasses.Field[Any]", hint: Any, value: Any) -> Any:
    """Return the value as its field wants it; None when the flag was not given."""
    kind, _ = bare_type(hint)
    if get_origin(kind) is not tuple:
        return value
    if not value:
        return None
    if not option_of(field).listed:
        return tuple(value)
    item = get_args(kind)[0]
    words = [word.strip() for word in value.split(",")]
    try:
        return tuple(item(word) for word in words)
    except ValueError:
        raise typer.BadParameter(
            f"{value!r} must be numbers with commas between", param_hint=flag_of(field)
        ) from None
