"""Pretrain a small Transformer on your own text, warm-start it on few labels, measure the gain.

    import warmstart

    warmstart.pretrain(files=["reviews.txt"], out="runs/base", preset="tiny", steps=500)
    warmstart.finetune(from_run="runs/base", train="train.tsv", valid="valid.tsv", out="runs/warm")
    warmstart.load("runs/warm").predict(["A fine book."])

Every verb takes the settings of its command as keywords; `help(warmstart.pretrain)` lists them.
"""

from typing import TYPE_CHECKING, Any

from warmstart.commands import TYPES, VERBS
from warmstart.errors import WarmstartError

if TYPE_CHECKING:
    __version__: str
    from warmstart.api import *  # noqa: F403

__all__ = ["WarmstartError", "__version__", *VERBS, *TYPES]


def __getattr__(name: str) -> Any:
    """Load the verbs on first use: importing the package alone stays quick."""
    if name == "__version__":
        from warmstart.version import package_version

        return package_version()
    if name in __all__:
        from warmstart import api
        from warmstart.signals import limit_spinning

        limit_spinning()

        return getattr(api, name)
    of_command = [verb for verb, command in VERBS.items() if command.name == name]
    hint = f"; `warmstart {name}` is warmstart.{of_command[0]} in Python" if of_command else ""
    raise AttributeError(f"module 'warmstart' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return __all__
