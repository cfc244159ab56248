"""The verbs of the product as Python functions, made from the table of commands.

Each takes the settings of its command as keywords, checked and typed by the same dataclass. A
setting that names a file of rows also takes a table in memory. What a type checker reads is
api.pyi; `python .ci/stub.py` writes it from the same table.
"""

import dataclasses
import glob
import inspect
import json
import operator
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from warmstart.commands import TYPES, VERBS, find
from warmstart.dataframes import tables_folder, write_table
from warmstart.display import show_in_python
from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.remotefiles import is_url
from warmstart.settings.base import Setting, Settings, check_keywords
from warmstart.settings.python_words import python_words
from warmstart.settings.shared import Destination

R = TypeVar("R")


def verb(settings: type[Settings], recipe: Callable[[Any], R]) -> Callable[..., R]:
    """Return the recipe with its settings as keywords."""
    signature = inspect.signature(settings)
    missing = {s.name: None for s in settings.declared() if s.is_required}  # refused when checked

    def call(*args: Any, **keywords: Any) -> R:
        _refuse_positions(recipe.__name__, args, settings)
        check_keywords(recipe.__name__, keywords, signature.parameters)
        with _files_of(keywords, settings) as (values, titles):
            translate = python_words(settings, titles)
            try:
                with show_in_python(translate):
                    result: Any = recipe(settings(**missing | values))
                if hasattr(result, "in_python"):
                    result = result.in_python(translate, partial(_python_call, titles))
                return _with_titles(result, titles)
            except WarmstartError as error:
                error.args = (translate(str(error)),)
                raise error.with_traceback(None) from None  # the frames below are not the user's

    call.__name__ = call.__qualname__ = recipe.__name__
    call.__doc__ = recipe.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _refuse_positions(name: str, args: tuple[Any, ...], settings: type[Settings]) -> None:
    """Refuse values without a keyword: their order would be a guess."""
    if args:
        known = sorted(settings.declared(), key=lambda setting: not setting.is_required)
        first = ", ".join(f"{s.name}=…" for s in known if s.is_required or s.key == "from")
        raise WarmstartError(
            f"{name} takes keywords, not {', '.join(map(_brief, args))} without a name; write "
            f"{name}({first}); help(warmstart.{name}) lists all of them"
        )


def _brief(value: Any) -> str:
    """Return a value as it was written, if it is short, else its type."""
    is_plain = isinstance(value, str | Path | int | float | None)
    return shorten(repr(value), 60) if is_plain else f"a {type(value).__name__}"


@contextmanager
def _files_of(
    keywords: Mapping[str, Any], settings: type[Settings]
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield keywords with files in place of tables, and what to call these files in messages.

    A run that may be resumed finds its tables again; those of other jobs are removed.
    """
    held = {s.name: s for s in settings.declared() if s.holds_rows and s.name in keywords}
    titles: dict[str, str] = {}
    is_kept = issubclass(settings, Destination)
    with TemporaryDirectory(prefix="warmstart-") as temporary:
        folder = tables_folder() if is_kept else Path(temporary)
        files = {
            name: _file_names(setting, keywords[name], folder, titles)
            for name, setting in held.items()
        }
        yield {**keywords, **files}, titles


def _file_names(setting: Setting, value: Any, folder: Path, titles: dict[str, str]) -> Any:
    """Return a value with the names of files in place of tables; enter these in `titles`."""
    if isinstance(value, str | Path | None):
        return value
    is_list = isinstance(value, list | tuple)
    has_rows = is_list and any(isinstance(item, Mapping | list | tuple) for item in value)
    if is_list and setting.is_list and not has_rows:
        _refuse_texts(setting, value)
        name = f"{setting.name}[{{}}]" if len(value) > 1 else setting.name
        named = ((item, name.format(number)) for number, item in enumerate(value))
        return [_file_name(setting, item, name, folder, titles) for item, name in named]
    return _file_name(setting, value, setting.name, folder, titles)


def _file_name(
    setting: Setting, value: Any, name: str, folder: Path, titles: dict[str, str]
) -> Any:
    if isinstance(value, str | Path):
        return value
    title = f"{name} ({type(value).__name__})"
    path = str(write_table(value, setting.name, title, folder))
    titles[path] = title
    return path


def _with_titles(value: Any, titles: Mapping[str, str]) -> Any:
    """Return a result that names the tables given, not the files that they were written to."""
    if isinstance(value, str):
        for path, title in titles.items():
            value = value.replace(path, title)
        return value
    if type(value) is tuple:
        items = tuple(_with_titles(item, titles) for item in value)
        is_same = all(map(operator.is_, items, value))
        return value if is_same else items
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    old = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    new = {name: _with_titles(item, titles) for name, item in old.items()}
    changed = {name: item for name, item in new.items() if item is not old[name]}
    return dataclasses.replace(value, **changed) if changed else value


def _python_call(titles: Mapping[str, str], command: str) -> str:
    """Return a command as a call, with tables by the names that they were given under."""
    first, *words = shlex.split(command)
    function, settings = next(
        (name, found.settings) for name, found in VERBS.items() if found.name == first
    )
    declared = list(settings.declared())
    by_flag = {flag: s for s in declared for flag in (s.flag, s.short) if flag}
    places = [setting for setting in declared if setting.positional]  # the last may be a list
    values: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        setting = by_flag.get(word) or (places.pop(0) if len(places) > 1 else places[0])
        value = "True" if setting.value_type is bool else next(rest) if word in by_flag else word
        values.setdefault(setting.name, []).append(_literal(setting, value, titles))
    lists = ((name, of[0] if len(of) == 1 else f"[{', '.join(of)}]") for name, of in values.items())
    return f"warmstart.{function}({', '.join(f'{name}={value}' for name, value in lists)})"


def _literal(setting: Setting, value: str, titles: Mapping[str, str]) -> str:
    """Return a value as Python writes it; a table by the name that it was given under."""
    if value in titles:
        return titles[value].partition(" ")[0]
    is_number = setting.value_type in (bool, int, float) and not setting.comma_separated
    return value if is_number else json.dumps(value, ensure_ascii=False)


def _refuse_texts(setting: Setting, names: Sequence[Any]) -> None:
    """Refuse sentences where a list of files is expected."""
    are_sentences = all(isinstance(name, str) and " " in name.strip() for name in names)
    if names and are_sentences and not any(map(_is_file_name, names)):
        raise WarmstartError(
            f"{setting.name} is a list of file names, and {shorten(names[0], 40)!r} is no file; "
            f'for texts write {setting.name}={{"text": [...]}}'
        )


def _is_file_name(name: str) -> bool:
    return os.path.exists(name) or is_url(name) or bool(glob.glob(name))


def __getattr__(name: str) -> Any:
    """Make a verb, or import a type, on first use."""
    if name in VERBS:
        globals()[name] = verb(VERBS[name].settings, find(VERBS[name].verb))
    elif name in TYPES:
        globals()[name] = find(TYPES[name])
    else:
        raise AttributeError(f"module 'warmstart.api' has no attribute {name!r}")
    return globals()[name]
