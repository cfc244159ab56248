"""The settings of `embed`.

Knows nothing about how vectors are made.
"""

from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, option
from warmstart.settings.training import Machine, Pooling, Truncate


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(Machine, Settings):
    """A run and texts in, vectors out."""

    run: str = option(help="run folder of any model", positional=True)
    file: str | None = option(
        None, help="texts, a line each; default, or -: standard input", positional=True
    )
    pooling: Pooling = option("mean", help="text vector: cls (first), last or mean position")
    layer: int | None = option(
        None, help="blocks to go through: 0 is the embeddings; default: all", least=0
    )
    tokens: bool = option(False, help="a vector for every token instead of one for the text")
    normalize: bool = option(False, help="scale every vector to length 1")
    word: str | None = option(
        None, help="compare this word between the texts, layer by layer, instead"
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)
    truncate: Truncate | None = option(
        None, help="what a too long text keeps: head, tail or middle; default: the run's rule, head"
    )
    micro_tokens: int = option(
        8192, help="padded tokens per forward pass; less needs less memory", least=2
    )
    pieces: bool = option(False, help="texts are already split into pieces")
    out: str | None = option(
        None,
        help="file to write: .npy .npz .jsonl .parquet, with --word .png .svg .html; "
        "default: standard output",
        short="-o",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word is None:
            return
        if not self.word.strip():
            raise WarmstartError("--word is empty; name a word that the texts hold")
        given = {"--tokens": self.tokens, "--layer": self.layer is not None}
        for flag in (flag for flag, is_given in given.items() if is_given):
            raise WarmstartError(f"{flag} has no effect with --word: leave one of them out")
