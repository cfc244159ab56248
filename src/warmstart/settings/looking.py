"""The settings of `look`: what to see, of which model, and the file to write.

Knows nothing about how pictures are made.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, option
from warmstart.settings.training import Machine

PICTURES = (".html", ".png", ".svg")


@dataclass(frozen=True, kw_only=True)
class Picture(Settings):
    """The file a picture is written to."""

    out: str = option(help="file to write: .html, .png or .svg", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if Path(self.out).suffix.lower() not in PICTURES:
            raise WarmstartError(f"-o {self.out} must end in {', '.join(PICTURES)}")
        if Path(self.out).is_dir():
            raise WarmstartError(f"-o {self.out} is a folder; name a file")


@dataclass(frozen=True, kw_only=True)
class LookAttentionConfig(Machine, Picture):
    """A run and a text in, its attention out."""

    run: str = option(help="run folder", positional=True)
    text: str | None = option(None, help="text to read", excludes="source")
    text2: str | None = option(None, help="second text, for a model that reads pairs")
    source: str | None = option(None, help="sentence to translate", excludes="text")
    target: str | None = option(None, help="its translation; default: the translator's own")
    words: bool = option(False, help="join pieces to words")
    layer: int | None = option(
        None, help="with --head: one head alone, in this layer, from 1; for .png and .svg", least=1
    )
    head: int | None = option(None, help="with --layer: which head of it, from 1", least=1)
    part: Literal["self", "encoder", "decoder", "cross"] | None = option(
        None, help="which part a .png or .svg shows; default: cross for a translator, else self"
    )
    pieces: bool = option(False, help="texts are already split into pieces")


@dataclass(frozen=True, kw_only=True)
class LookMaskConfig(Picture):
    """Texts in, who may look at whom out."""

    model: str = option(help="preset or run folder", positional=True)
    text: tuple[str, ...] = option((), help="text of the batch; repeat it for more")
    source: tuple[str, ...] = option((), help="sentence to translate; repeat it for more")
    target: tuple[str, ...] = option((), help="translation of each --source, in order")
    packed: bool = option(False, help="texts as documents of one row, as in pretraining")
    pieces: bool = option(False, help="texts are already split into pieces")


@dataclass(frozen=True, kw_only=True)
class LookPositionsConfig(Machine, Picture):
    """A shape in, its positions out; for a language model, perplexity by position."""

    model: str = option(help="preset or run folder", positional=True)
    length: int | None = option(
        None, help="positions to show; default: what the model reads", least=8, most=100_000
    )
    test: str | None = option(None, help="text for perplexity by position, for a causal run")
    past: float = option(
        2.0, help="read up to this many times the trained length", least=1, most=64
    )
    document: Literal["auto", "line", "blank"] = option(
        "auto", help="what ends a document in .txt: auto, line or blank"
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)


@dataclass(frozen=True, kw_only=True)
class LookComplexityConfig(Machine, Settings):
    """Nothing in, measured growth with length out."""

    lengths: tuple[int, ...] = option(
        (),
        help="lengths in tokens; default: 128 to 8192, on CUDA 1024 to 262144",
        listed=True,
        least=2,
    )
    width: int | None = option(None, help="width of every layer; default: 64, on CUDA 512", least=2)
    kernel: int = option(3, help="positions a convolution sees", least=1)
    recurrence: Literal["gru", "lstm"] = option("gru", help="gru or lstm")
    seconds: float = option(50.0, help="time to measure in, about", above=0)
    out: str | None = option(
        None, help="file to write: .html, .png or .svg", short="-o", recorded=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lengths and len(set(self.lengths)) < 2:
            raise WarmstartError(f"--lengths {self.lengths[0]}: give two lengths or more")
        if self.out is not None:
            Picture(out=self.out)  # the same checks
