"""The settings of `train-translator` and `translate`."""

from dataclasses import dataclass
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import ArchitectureOverrides
from warmstart.settings.base import Settings, option
from warmstart.settings.choices import Optimizer
from warmstart.settings.input_files import TextColumn
from warmstart.settings.machine import Machine
from warmstart.settings.saving import Checkpoints, Destination
from warmstart.settings.tokenizers import TrainedTokenizer

DEFAULT_PRESET = "translator-small"


@dataclass(frozen=True, kw_only=True)
class PairFiles(Settings):
    """The sentence pairs to train on and to validate on."""

    source: str | None = option(None, help="sentences, one per line")
    target: str | None = option(None, help="their translations, one per line")
    valid_source: str | None = option(None, help="sentences to validate on")
    valid_target: str | None = option(None, help="their translations")
    train: str | None = option(None, help="table of both sides, not --source --target")
    valid: str | None = option(None, help="table of both sides to validate on")
    columns: tuple[str, ...] = option(
        (),
        help="in file order: source,target or source=en,target=de",
        comma_separated=True,
        metavar="NAMES",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for table, prefix in (("train", ""), ("valid", "valid_")):
            sides = [f"{prefix}source", f"{prefix}target"]
            flags = " and ".join(f"--{side}".replace("_", "-") for side in sides)
            is_given = [bool(getattr(self, side)) for side in sides]
            if getattr(self, table) and any(is_given):
                raise WarmstartError(f"--{table} holds both sides: leave out {flags}")
            if not getattr(self, table) and not all(is_given):
                raise WarmstartError(f"give {flags}, or --{table} with both sides")
        if self.columns and not (self.train or self.valid):
            raise WarmstartError("--columns needs --train or --valid: plain lines have no columns")


@dataclass(frozen=True, kw_only=True)
class TranslatorArchitecture(ArchitectureOverrides, TrainedTokenizer, panel="Model"):
    """A preset with a decoder, what to change in it, and its tokenizers."""

    preset: str | None = option(
        None, help=f"default: {DEFAULT_PRESET}", metavar="NAME", excludes="from"
    )
    decoder_depth: int | None = option(None, help="blocks of the decoder", least=1)
    shared: bool | None = option(None, help="source and target share one embedding", advanced=True)
    vocabulary: Literal["joint", "separate"] = option(
        "joint", help="one tokenizer for both languages, or two"
    )
    target_tokenizer: str | None = option(None, help="tokenizer of the target language")


@dataclass(frozen=True, kw_only=True)
class TrainTranslatorConfig(
    PairFiles, TranslatorArchitecture, Destination, Checkpoints, Machine, panel="Training"
):
    """Sentence pairs in, translator out."""

    from_run: str | None = option(
        None,
        key="from",
        help="masked run whose backbone becomes the encoder",
        panel="Input and output",
    )
    epochs: int | None = option(None, help="passes over the pairs; default: 30", least=1)
    steps: int | None = option(
        None, help="optimizer steps, instead of --epochs", least=1, excludes="epochs"
    )
    batch_tokens: int = option(
        4096, help="source and target tokens per step, with padding", least=16
    )
    micro_tokens: int = option(
        32_768, help="the same per forward pass; fewer need less memory", least=16
    )
    label_smoothing: float = option(
        0.1, help="share of each target spread over the vocabulary", least=0, most=0.9
    )
    optimizer: Optimizer = option("muon", help="muon: for the matrices of the blocks")
    learning_rate: float | None = option(
        None, help="peak; default: by optimizer and width", above=0
    )
    schedule: Literal["cosine", "inverse-sqrt"] = option(
        "cosine", help="of the learning rate after warm-up", advanced=True
    )
    weight_decay: float = option(0.01, help="decoupled, on matrices", least=0, advanced=True)
    warmup: float = option(
        0.1, help="share of steps with a rising learning rate", least=0, most=1, advanced=True
    )
    clip: float = option(1.0, help="largest gradient norm", above=0, advanced=True)
    eval_every: int | None = option(
        None, help="steps between validations; default: one epoch", least=1
    )
    log_every: int = option(50, help="steps between lines in metrics.jsonl", least=1, advanced=True)
    select: Literal["bleu", "loss"] = option(
        "bleu", help="validation metric that selects the best weights", advanced=True
    )
    patience: int | None = option(
        None, help="stop after this many validations without improvement", least=1
    )
    average: int = option(
        5, help="average the weights of so many last validations; 1: none", least=1, advanced=True
    )
    samples: int = option(3, help="translations shown at each validation", least=0, advanced=True)
    compile: bool | None = option(
        None, help="use torch.compile; default: no", fixed=False, advanced=True
    )


@dataclass(frozen=True, kw_only=True)
class Search(Settings, panel="Decoding"):
    """How translations are searched for."""

    beam: int = option(5, help="size of the beam; 1: greedy", least=1, most=1000)
    length_penalty: float = option(
        1.0, help="0: plain probabilities; more: longer translations", least=0, most=10
    )
    max_ratio: float = option(
        2.0, help="longest translation, in source lengths (plus 10 tokens)", above=0, most=1000
    )
    batch_tokens: int | None = option(
        None, help="tokens decoded together; default: 4096, on CUDA 16384", least=1
    )


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(TextColumn, Search, Machine):
    """A translator and sentences in, translations out."""

    run: str = option(help="run folder of a translator", positional=True)
    file: str | None = option(
        None, help="one sentence per line; default, or -: standard input", positional=True
    )
    out: str | None = option(None, help="file to write; default: standard output", short="-o")
    n_best: int = option(1, help="translations of each sentence", least=1)
    scores: bool = option(False, help="print each translation's score before it")
    overlong: Literal["split", "refuse"] = option(
        "split", help="sentences longer than the model reads"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise WarmstartError(
                f"--n-best {self.n_best} is more than --beam {self.beam}: widen the beam"
            )
