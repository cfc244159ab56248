"""The settings of `demo` and `data`."""

from dataclasses import dataclass

from warmstart.settings.base import option
from warmstart.settings.input_files import LabelledColumns
from warmstart.settings.machine import Machine


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Machine):
    """Nothing in, report on built-in data out."""

    out: str = option("demo", help="folder to write", short="-o", recorded=False)
    resume: bool = option(
        False, help="continue the demo in the folder", recorded=False, panel="Saving"
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig(LabelledColumns):
    """Files in, report on them out."""

    files: tuple[str, ...] = option(help="text or labelled files", positional=True)
    labels: tuple[str, ...] = option((), help="label file of each text file, in order")
    tokenizer: str | None = option(
        None, help="tokenizer, or run that has one, to count tokens with"
    )
    max_length: int | None = option(None, help="count texts longer than this, in tokens", least=3)
    against: str | None = option(None, help="run; report which texts occur in its training data")
