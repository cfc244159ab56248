"""Write src/warmstart/api.pyi, what type checkers read of the verbs, from the table of commands."""

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from warmstart.commands import TYPES, VERBS, find
from warmstart.settings.base import Setting

STUB = Path(__file__).parents[1] / "src/warmstart/api.pyi"
Imports = set[tuple[str, str]]  # modules, and what is imported from them


def stub() -> str:
    """Return the text of the stub."""
    imports: Imports = {("pathlib", "Path"), ("collections.abc", "Mapping")}
    imports |= {("collections.abc", "Sequence"), ("warmstart.dataframes", "Table")}
    verbs = [function(name, imports) for name in sorted(VERBS)]
    lines = ["# Written by .ci/stub.py from the table in commands.py.", ""]
    lines += [
        f"from {module} import {name}" for module, name in sorted(imports) if name not in TYPES
    ]
    lines += sorted(f"from warmstart.{p.replace(':', ' import ')} as {n}" for n, p in TYPES.items())
    return "\n".join([*lines, "", *verbs]) + "\n"


def function(name: str, imports: Imports) -> str:
    """Return the signature of a verb."""
    settings = sorted(VERBS[name].settings.declared(), key=lambda setting: not setting.is_required)
    result = inspect.signature(find(VERBS[name].verb), eval_str=True).return_annotation
    parameters = ", ".join(parameter(setting, imports) for setting in settings)
    return f"def {name}(*, {parameters}) -> {type_text(result, imports)}: ..."


def parameter(setting: Setting, imports: Imports) -> str:
    """Return a setting as a keyword: whatever its check accepts."""
    item = type_text(setting.value_type, imports)
    if setting.is_path:
        item += " | Path"
    if setting.holds_rows:
        item += " | Table"
    if setting.is_list:
        item += f" | Sequence[{item}]"
    elif setting.holds_rows:
        item += " | Sequence[str | None]"  # the texts themselves
    if setting.name == "columns":
        item += " | Mapping[str, str]"
    if setting.allows_none:
        item += " | None"
    return f"{setting.name}: {item}{'' if setting.is_required else ' = ...'}"


def type_text(hint: Any, imports: Imports) -> str:
    """Return a type as it is written; enter what has to be imported."""
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        imports.add(("typing", "Literal"))
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(type_text(argument, imports) for argument in arguments)
    if arguments:
        inner = ", ".join(type_text(argument, imports) for argument in arguments)
        return f"{type_text(get_origin(hint), imports)}[{inner}]"
    if hint in (None, NoneType):
        return "None"
    if hint.__module__ != "builtins":
        imports.add((hint.__module__, hint.__name__))
    return str(hint.__name__)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
