"""The settings of `evaluate`, `predict` and `generate`."""

from dataclasses import dataclass

from warmstart.settings.base import option
from warmstart.settings.input_files import Documents, LabelledColumns, SplitTexts, TextColumn
from warmstart.settings.machine import Machine
from warmstart.settings.translating import Search


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(LabelledColumns, Documents, Search, Machine):
    """A run and held-out data in, scores out."""

    run: str = option(help="run folder", positional=True)
    test: str | None = option(None, help="labelled texts, plain text or a table of pairs")
    test_labels: str | None = option(None, help="labels of --test, one per line")
    source: str | None = option(None, help="sentences for a translator, one per line")
    target: str | None = option(None, help="their translations, one per line")
    against: str | None = option(None, help="second translator, compared by a paired test")


@dataclass(frozen=True, kw_only=True)
class PredictConfig(TextColumn, SplitTexts, Machine):
    """A classifier and texts in, labels out."""

    run: str = option(help="run folder of a classifier", positional=True)
    file: str | None = option(
        None, help="one text per line; default, or -: standard input", positional=True
    )
    out: str | None = option(None, help="file to write; default: standard output", short="-o")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(Machine, panel="Decoding"):
    """A language model and a prompt in, text out."""

    run: str = option(help="run folder of a causal language model", positional=True)
    prompt: str = option("", help="text to continue", metavar="TEXT", panel="Input and output")
    num: int = option(1, help="texts to write", least=1, panel="Input and output")
    out: str | None = option(
        None, help="file to write; default: standard output", short="-o", panel="Input and output"
    )
    max_tokens: int = option(100, help="tokens to add, at most", least=1)
    temperature: float = option(0.8, help="0: the most likely token each time", least=0)
    top_k: int | None = option(None, help="sample from the k most likely tokens", least=1)
    top_p: float | None = option(
        None, help="sample from the most likely tokens with this total probability", above=0, most=1
    )
