"""The verbs of the product as Python functions, made from the table of commands.

Each takes the settings of its command as keywords, checked and typed by the same dataclass. What a
type checker reads is api.pyi; `python .ci/stub.py` writes it from the same table.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from warmstart.commands import TYPES, VERBS, find
from warmstart.display import show_in_notebooks
from warmstart.settings.base import check_keywords

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def verb(settings: Callable[P, C], recipe: Callable[[C], R]) -> Callable[P, R]:
    """Return the recipe with its settings as keywords."""
    signature = inspect.signature(settings)

    def call(*args: P.args, **keywords: P.kwargs) -> R:
        check_keywords(recipe.__name__, keywords, signature.parameters)
        with show_in_notebooks():
            return recipe(settings(*args, **keywords))

    call.__name__ = call.__qualname__ = recipe.__name__
    call.__doc__ = recipe.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def __getattr__(name: str) -> Any:
    """Make a verb, or import a type, on first use."""
    if name in VERBS:
        globals()[name] = verb(VERBS[name].settings, find(VERBS[name].verb))
    elif name in TYPES:
        globals()[name] = find(TYPES[name])
    else:
        raise AttributeError(f"module 'warmstart.api' has no attribute {name!r}")
    return globals()[name]
