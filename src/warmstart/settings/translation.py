"""The settings of translation: training a translator, and using it.

Knows nothing about how either is done.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, option
from warmstart.settings.model import ArchitectureOverrides
from warmstart.settings.training import Checkpoints, Destination, Machine
from warmstart.settings.using import Search

DEFAULT_PRESET = "translator-small"


@dataclass(frozen=True, kw_only=True)
class TrainTranslatorConfig(ArchitectureOverrides, Checkpoints, Destination, Machine, Settings):
    """Sentence pairs in, translator out."""

    source: str | None = option(None, help="sentences, a line each")
    target: str | None = option(None, help="their translations, a line each")
    valid_source: str | None = option(None, help="sentences to choose by")
    valid_target: str | None = option(None, help="their translations")
    train: str | None = option(None, help="both sides in one table, instead of --source --target")
    valid: str | None = option(None, help="the same to choose by")
    columns: tuple[str, ...] = option(
        (), help="columns in file order, e.g. source,target or source=en,target=de", listed=True
    )
    preset: str | None = option(
        None, help=f"shape to start from; default: {DEFAULT_PRESET}", excludes="from"
    )
    decoder_depth: int | None = option(None, help="blocks of the decoder", least=1)
    shared: bool | None = option(None, help="source and target share one embedding")
    vocabulary: Literal["joint", "separate"] = option(
        "joint", help="one tokenizer for both languages, or one for each"
    )
    tokenizer: str | None = option(None, help="tokenizer of the source; default: train")
    target_tokenizer: str | None = option(None, help="tokenizer of the target")
    kind: Literal["bpe", "unigram"] = option("bpe", help="tokenizer to train: bpe or unigram")
    vocab_size: int | None = option(
        None, help="vocabulary of each trained tokenizer; default: the preset's", least=261
    )
    from_run: str | None = option(
        None, key="from", help="masked run whose base becomes the encoder"
    )
    epochs: int | None = option(None, help="passes over the pairs; default 30", least=1)
    steps: int | None = option(None, help="optimizer steps instead", least=1, excludes="epochs")
    batch_tokens: int = option(
        4096, help="source and target tokens per optimizer step, padding included", least=16
    )
    micro_tokens: int = option(
        32_768, help="the same per forward pass; less needs less memory", least=16
    )
    label_smoothing: float = option(
        0.1, help="share of each target spread over the vocabulary", least=0, most=0.9
    )
    optimizer: Literal["adamw", "muon"] = option("muon", help="adamw or muon")
    schedule: Literal["cosine", "inverse-sqrt"] = option(
        "cosine", help="after the warm-up: a cosine, or the 2017 paper's inverse square root"
    )
    learning_rate: float | None = option(
        None, help="peak rate; default: by optimizer and width", above=0
    )
    weight_decay: float = option(0.01, help="decoupled weight decay on matrices", least=0)
    warmup: float = option(0.1, help="share of steps with a rising rate", least=0, most=1)
    clip: float = option(1.0, help="largest gradient norm", above=0)
    eval_every: int | None = option(
        None, help="steps between validations; default: an epoch's", least=1
    )
    log_every: int = option(50, help="steps between lines in metrics.jsonl", least=1)
    select: Literal["bleu", "loss"] = option("bleu", help="validation figure that picks the best")
    patience: int | None = option(
        None, help="stop after so many validations without a better one", least=1
    )
    average: int = option(
        5, help="weights of so many last validations are averaged at the end; 1: none", least=1
    )
    samples: int = option(3, help="translations shown at each validation", least=0)
    compile: bool | None = option(None, help="torch.compile; default: no", fixed=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("", "valid_"):
            given = [getattr(self, name + side) for side in ("source", "target")]
            table = "valid" if name else "train"
            flags = [f"--{name}{side}".replace("_", "-") for side in ("source", "target")]
            if getattr(self, table) and any(given):
                raise WarmstartError(f"--{table} holds both sides: leave out {' and '.join(flags)}")
            if not getattr(self, table) and not all(given):
                raise WarmstartError(f"give {' and '.join(flags)}, or --{table} with both sides")
        if self.columns and not (self.train or self.valid):
            raise WarmstartError("--columns goes with --train or --valid, not with plain lines")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(Search, Machine, Settings):
    """A translator and sentences in, translations out."""

    run: str = option(help="run folder of a translator", positional=True)
    file: str | None = option(
        None, help="sentences, a line each; default, or -: standard input", positional=True
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)
    out: str | None = option(None, help="file to write; default: standard output", short="-o")
    n_best: int = option(1, help="translations of each sentence", least=1)
    scores: bool = option(False, help="print each translation's score before it")
    overlong: Literal["split", "refuse"] = option(
        "split", help="a sentence longer than the model reads: split it, or refuse it"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise WarmstartError(f"--n-best {self.n_best} is more than --beam {self.beam} keeps")
