"""Settings dataclasses -> command-line options.

A field is a flag: its name, help, limits and default stand in `warmstart.config` alone.
"""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from rich.markup import escape

from warmstart.errors import WarmstartError
from warmstart.settings.base import (
    Settings,
    bare_type,
    field_types,
    flag_of,
    in_words,
    is_required,
    key_of,
    option_of,
    read_settings_file,
)

CONFIG = typer.Option("--config", help="TOML file, or a run's config.json, with these settings")
JSON = typer.Option("--json", help="print JSON")


class Command(NamedTuple):
    """One command: its settings, what it runs, and an example for its help."""

    name: str  # two words: a group and its member
    settings: type[Settings]
    run: Callable[..., None]
    example: str
    has_json: bool = False


def add_command(app: typer.Typer, entry: Command) -> None:
    """Add a command that takes its settings as options and hands them to its function."""
    name, settings, run, example, has_json = entry
    fields = [f for f in dataclasses.fields(settings) if not option_of(f).hidden]
    hints = field_types(settings)

    def command(**given: Any) -> None:
        config: Path | None = given.pop("config")
        extra = {"as_json": given.pop("as_json")} if has_json else {}
        values = read_settings_file(config, name) if config else {}
        settings.check_keys(values, f"--config {config}: ")
        parsed = {key_of(f): _parsed(f, hints[f.name], given[f.name]) for f in fields}
        flags = {key: value for key, value in parsed.items() if value is not None}
        run(settings.from_values(settings.overridden(values, flags)), **extra)

    parameters = [_parameter(field, hints[field.name]) for field in fields]
    parameters.append(_keyword("config", Annotated[Path | None, CONFIG], None))
    if has_json:
        parameters.append(_keyword("as_json", Annotated[bool, JSON], False))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = f"{inspect.getdoc(run)}\n\nExample: {example}"
    app.command(name.split()[-1])(command)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _parameter(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    kind, _ = bare_type(hint)
    option = option_of(field)
    typed: Any = _flag_type(kind, option.listed)
    if option.positional:
        metavar = key_of(field).upper()
        info = typer.Argument(help=_help(field, kind), metavar=metavar, show_default=False)
    else:
        words = "|".join(map(str, get_args(kind))) if get_origin(kind) is Literal else None
        flags, text = _names(field, kind), _help(field, kind)
        info = typer.Option(*flags, help=text, metavar=words, show_default=False)
    return _keyword(field.name, Annotated[typed | None, info], None)


def _names(field: "dataclasses.Field[Any]", kind: Any) -> list[str]:
    flag, short = flag_of(field), option_of(field).short
    if kind is bool:
        return [f"{flag}/--no-{flag.removeprefix('--')}"]
    return [flag, *([short] if short else [])]


def _help(field: "dataclasses.Field[Any]", kind: Any) -> str:
    """Return the help text with the default, which Typer cannot see: a flag left out is None."""
    default: Any = field.default
    text = escape(option_of(field).help)
    if is_required(field):
        return f"{text} [red]{escape('[required]')}[/]"
    if default in (None, (), ""):
        return text
    if kind is bool:
        shown = "yes" if default else "no"
    else:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"{text} [dim]{escape(f'[default: {shown}]')}[/]"


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
        raise WarmstartError(
            f"{flag_of(field)} {value}: each item must be {in_words(item)}, with commas between"
        ) from None
