"""Write src/warmstart/api.pyi, what type checkers read of the verbs, from the table of commands."""

from pathlib import Path

from warmstart.commands import TYPES, VERBS, Command

STUB = Path(__file__).parents[1] / "src/warmstart/api.pyi"


def stub() -> str:
    """Return the text of the stub."""
    lines = ["# Written by .ci/stub.py from the table in commands.py.", ""]
    lines += ["from collections.abc import Callable", "from typing import ParamSpec, TypeVar", ""]
    lines += sorted(f"from {module(VERBS[n])} import {n} as _{n}" for n in VERBS)
    lines += sorted(
        {f"from {c.settings.__module__} import {c.settings.__name__}" for c in VERBS.values()}
    )
    lines += sorted(f"from warmstart.{p.replace(':', ' import ')} as {n}" for n, p in TYPES.items())
    lines += ["", 'P = ParamSpec("P")', 'C = TypeVar("C")', 'R = TypeVar("R")', ""]
    lines += [
        "def verb(settings: Callable[P, C], recipe: Callable[[C], R]) -> Callable[P, R]: ...",
        "",
    ]
    lines += [f"{n} = verb({VERBS[n].settings.__name__}, _{n})" for n in sorted(VERBS)]
    return "\n".join(lines) + "\n"


def module(command: Command) -> str:
    """Return the module of a command's verb."""
    return f"warmstart.{command.verb.partition(':')[0]}"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
