"""The settings of `train-translator` and `translate`."""

from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import ArchitectureOverrides, preset_named
from warmstart.settings.base import Settings, advanced, argument, option
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import (
    MAX_RATE,
    Machine,
    Optimizer,
    TableFormat,
    TextLines,
    TrainedTokenizer,
    TrainingRun,
)

DEFAULT_PRESETS = {"cuda": "translator-medium", "cpu": "translator-small"}


class PairFiles(TableFormat):
    """The sentence pairs to train on and to validate on."""

    source: str | None = option("sentences, one per line", None)
    target: str | None = option("their translations, one per line", None)
    valid_source: str | None = option("sentences to validate on", None)
    valid_target: str | None = option("their translations", None)
    train: str | None = option("table of both sides, not --source --target", None)
    valid: str | None = option("table of both sides to validate on", None)
    columns: tuple[str, ...] = option(
        "in file order: source,target or source=en,target=de",
        (),
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


class TranslatorArchitecture(ArchitectureOverrides, TrainedTokenizer, panel="Model"):
    """A preset with a decoder, what to change in it, and its tokenizers."""

    preset: str | None = option(
        "default: translator-medium, or -small without a GPU",
        None,
        metavar="NAME",
        excludes=("from",),
    )
    decoder_depth: int | None = option("blocks of the decoder", None, least=1)
    shared: bool | None = advanced("source and target share one embedding", None)
    vocabulary: Literal["joint", "separate"] = option("one tokenizer or one per language", "joint")
    target_tokenizer: str | None = option("tokenizer of the target language", None)

    def preset_for(self, device: str) -> ModelConfig:
        """Return the preset named, or the default one for a kind of device."""
        return preset_named(self.preset or DEFAULT_PRESETS[device])


class TrainTranslatorConfig(PairFiles, TranslatorArchitecture, TrainingRun, panel="Training"):
    """Sentence pairs in, translator out."""

    from_run: str | None = option(
        "translator to continue, or masked run that becomes the encoder",
        None,
        key="from",
        panel="Input and output",
    )
    epochs: int | None = option(
        "passes over the pairs; default: by their number",
        None,
        least=1,
        fixed=False,
    )
    steps: int | None = option(
        "steps, instead of --epochs", None, least=1, fixed=False, excludes=("epochs", "minutes")
    )
    minutes: float | None = option(
        "time to take in all, instead of --epochs",
        None,
        above=0,
        fixed=False,
        excludes=("epochs",),
    )
    batch_tokens: int = option("source and target tokens per step, with padding", 8192, least=16)
    micro_tokens: int = option("the same per forward pass; fewer: less memory", 32_768, least=16)
    label_smoothing: float = option("share spread over the vocabulary", 0.1, least=0, most=0.9)
    consistency: float | None = option(
        "weight of R-Drop; default: 5, with many pairs 0",
        None,
        least=0,
    )
    optimizer: Optimizer = option("muon: for the matrices of the blocks", "muon")
    learning_rate: float | None = option(
        "peak; default: by optimizer and width", None, above=0, most=MAX_RATE
    )
    schedule: Literal["cosine", "inverse-sqrt"] = advanced("learning rate after warm-up", "cosine")
    weight_decay: float = advanced("decoupled, on matrices", 0.01, least=0, most=MAX_RATE)
    warmup: float = advanced("share of steps with a rising learning rate", 0.1, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    eval_every: int | None = option("steps between validations; default: one epoch", None, least=1)
    log_every: int = advanced("steps between lines in metrics.jsonl", 50, least=1)
    select: Literal["bleu", "loss"] = advanced("validation metric that selects the weights", "bleu")
    patience: int | None = option("validations without improvement before stopping", None, least=1)
    average: int = advanced("last validations whose weights are averaged; 1: none", 5, least=1)
    samples: int = advanced("translations shown at each validation", 3, least=0)
    compile: bool | None = advanced(
        "replay recorded steps, compile blocks; default: on CUDA, long trainings",
        None,
        fixed=False,
    )


class Search(Settings, panel="Decoding"):
    """How translations are searched for."""

    beam: int = option("size of the beam; 1: greedy", 5, least=1, most=1000)
    length_penalty: float = option("0: none; more: longer translations", 1.0, least=0, most=10)
    max_ratio: float = option(
        "longest translation, in source lengths (plus 10 tokens)", 2.0, above=0, most=1000
    )
    batch_tokens: int | None = option("per batch; default: 4096, on CUDA 16384", None, least=1)


class TranslateConfig(TextLines, Search, Machine):
    """A translator and sentences in, translations out."""

    run: str = argument("run folder of a translator")
    n_best: int = option("translations of each sentence", 1, least=1)
    scores: bool = option("print each translation's score before it", False)
    overlong: Literal["split", "refuse"] = option("sentences longer than the model reads", "split")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise WarmstartError(
                f"--n-best {self.n_best} is more than --beam {self.beam}: widen the beam"
            )
