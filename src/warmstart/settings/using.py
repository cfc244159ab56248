"""The settings of using a run: scores, labels, texts, and how translations are searched for.

Knows nothing about how any of it is done.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option
from warmstart.settings.training import Machine


@dataclass(frozen=True, kw_only=True)
class Search:
    """How translations are searched for."""

    beam: int = option(5, help="hypotheses kept side by side; 1 is greedy", least=1, most=1000)
    length_penalty: float = option(
        1.0,
        help="0 compares plain probabilities; more favours longer translations",
        least=0,
        most=10,
    )
    max_ratio: float = option(
        2.0, help="longest translation, in tokens of its source (and ten more)", above=0, most=1000
    )
    batch_tokens: int | None = option(
        None, help="tokens decoded together; default: 4096, on CUDA 16384", least=1
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Search, Machine, Settings):
    """A run and held-back data in, scores out."""

    run: str = option(help="run folder", positional=True)
    test: str | None = option(
        None, help="labelled texts, plain text for a language model, or a table of pairs"
    )
    source: str | None = option(None, help="sentences for a translator, a line each")
    target: str | None = option(None, help="their translations, a line each")
    against: str | None = option(None, help="second translator, compared by a paired test")
    test_labels: str | None = option(None, help="labels of --test, a line each")
    columns: tuple[str, ...] = option(
        (), help="columns in file order, e.g. label,text", listed=True
    )
    pieces: bool = option(False, help="texts are already split into pieces")
    document: Literal["auto", "line", "blank"] = option(
        "auto", help="what ends a document in .txt: auto, line or blank"
    )


@dataclass(frozen=True, kw_only=True)
class PredictConfig(Machine, Settings):
    """A classifier and texts in, labels out."""

    run: str = option(help="run folder of a classifier", positional=True)
    file: str | None = option(
        None, help="texts, a line each; default, or -: standard input", positional=True
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)
    out: str | None = option(None, help="file to write; default: standard output", short="-o")
    pieces: bool = option(False, help="texts are already split into pieces")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(Machine, Settings):
    """A language model and a prompt in, text out."""

    run: str = option(help="run folder of a causal language model", positional=True)
    prompt: str = option("", help="text to go on from")
    max_tokens: int = option(100, help="tokens to add, at most", least=1)
    temperature: float = option(0.8, help="0 takes the likeliest token each time", least=0)
    top_k: int | None = option(None, help="draw from the k likeliest tokens", least=1)
    top_p: float | None = option(
        None, help="draw from the likeliest tokens that hold this share", above=0, most=1
    )
    num: int = option(1, help="texts to write", least=1)
    out: str | None = option(None, help="file to write; default: standard output", short="-o")
