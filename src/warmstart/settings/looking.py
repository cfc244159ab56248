"""The settings of the `look` commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, option
from warmstart.settings.input_files import Documents, SplitTexts, TextColumn
from warmstart.settings.machine import Machine

FIGURE_TYPES = (".html", ".png", ".svg")


@dataclass(frozen=True, kw_only=True)
class FigureFile(Settings):
    """The file a figure is written to."""

    out: str = option(help="file to write: .html, .png or .svg", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if Path(self.out).suffix.lower() not in FIGURE_TYPES:
            raise WarmstartError(f"-o {self.out} must end in {', '.join(FIGURE_TYPES)}")
        if Path(self.out).is_dir():
            raise WarmstartError(f"-o {self.out} is a folder; name a file")


@dataclass(frozen=True, kw_only=True)
class LookAttentionConfig(FigureFile, SplitTexts, Machine):
    """A run and a text in, its attention weights out."""

    run: str = option(help="run folder", positional=True)
    text: str | None = option(None, help="text to read", metavar="TEXT", excludes="source")
    text2: str | None = option(
        None, help="second text, for a model that reads pairs", metavar="TEXT"
    )
    source: str | None = option(None, help="sentence to translate", metavar="TEXT")
    target: str | None = option(
        None, help="its translation; default: the translator's own", metavar="TEXT"
    )
    words: bool = option(False, help="join pieces to words")
    layer: int | None = option(
        None, help=".png, .svg: show one head of this layer, from 1; needs --head", least=1
    )
    head: int | None = option(None, help="head of that layer, from 1; needs --layer", least=1)
    part: Literal["self", "encoder", "decoder", "cross"] | None = option(
        None, help=".png, .svg: part to show; default: self, for a translator cross", metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class LookMaskConfig(FigureFile, SplitTexts):
    """Texts in, their attention masks out."""

    model: str = option(help="preset or run folder", positional=True)
    text: tuple[str, ...] = option((), help="text of the batch; repeat for more", metavar="TEXT")
    source: tuple[str, ...] = option(
        (), help="sentence to translate; repeat for more", metavar="TEXT"
    )
    target: tuple[str, ...] = option(
        (), help="translation of each --source, in order", metavar="TEXT"
    )
    packed: bool = option(False, help="texts are documents of one row, as in pretraining")


@dataclass(frozen=True, kw_only=True)
class LookPositionsConfig(FigureFile, Documents, TextColumn, Machine):
    """An architecture in, its position encoding and perplexity by position out."""

    model: str = option(help="preset or run folder", positional=True)
    length: int | None = option(
        None, help="positions to show; default: the model's longest text", least=8, most=100_000
    )
    test: str | None = option(None, help="text for perplexity by position; needs a causal run")
    past: float = option(
        2.0, help="read up to this many times the trained length", least=1, most=64
    )


@dataclass(frozen=True, kw_only=True)
class LookComplexityConfig(Machine, panel="Model"):
    """Nothing in, measured growth with length out."""

    out: str | None = option(
        None,
        help="file to write: .html, .png or .svg",
        short="-o",
        recorded=False,
        panel="Input and output",
    )
    lengths: tuple[int, ...] = option(
        (),
        help="in tokens; default: 128 to 8192, on CUDA 1024 to 262144",
        comma_separated=True,
        least=2,
    )
    width: int | None = option(None, help="width of every layer; default: 64, on CUDA 512", least=2)
    kernel: int = option(3, help="positions a convolution sees", least=1)
    recurrence: Literal["gru", "lstm"] = option("gru", help="recurrent layer")
    seconds: float = option(50.0, help="time to measure, approximately", above=0, panel="Machine")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lengths and len(set(self.lengths)) < 2:
            raise WarmstartError(f"--lengths {self.lengths[0]}: give two lengths or more")
        if self.out is not None:
            FigureFile(out=self.out)  # the same checks
