"""The settings of `embed`."""

from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.settings.base import option
from warmstart.settings.choices import Pooling, Truncate
from warmstart.settings.input_files import SplitTexts, TextColumn
from warmstart.settings.machine import Machine


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(TextColumn, SplitTexts, Machine, panel="Model"):
    """A run and texts in, vectors out."""

    run: str = option(help="run folder of any model", positional=True)
    file: str | None = option(
        None, help="one text per line; default, or -: standard input", positional=True
    )
    out: str | None = option(
        None,
        help=".npy .npz .jsonl .parquet (--word: .png .svg .html); default: standard output",
        short="-o",
        panel="Input and output",
    )
    pooling: Pooling = option("mean", help="positions of the text vector")
    layer: int | None = option(
        None, help="block to take vectors from; 0: the embeddings; default: the last", least=0
    )
    tokens: bool = option(False, help="one vector per token instead of per text")
    normalize: bool = option(False, help="scale every vector to length 1")
    word: str | None = option(
        None, help="compare this word between the texts, layer by layer", metavar="WORD"
    )
    truncate: Truncate | None = option(
        None, help="part of an overlong text used; default: as in the run"
    )
    micro_tokens: int = option(
        8192,
        help="padded tokens per forward pass; fewer need less memory",
        least=2,
        panel="Machine",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word is None:
            return
        if not self.word.strip():
            raise WarmstartError("--word is empty: name a word that occurs in the texts")
        is_given = {"--tokens": self.tokens, "--layer": self.layer is not None}
        for flag in (flag for flag in is_given if is_given[flag]):
            raise WarmstartError(f"{flag} has no effect with --word: leave one of them out")
