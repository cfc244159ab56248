"""The settings of `pretrain`, `finetune` and `train-translator`."""

import math
from typing import ClassVar, Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, advanced, argument, option
from warmstart.settings.model import (
    Ablation,
    Architecture,
    ArchitectureOverrides,
)
from warmstart.settings.shared import (
    MAX_RATE,
    Documents,
    LabelledFiles,
    ModelTokenizer,
    Optimizer,
    Pooling,
    RemoteFiles,
    TableFormat,
    TextColumn,
    TrainedTokenizer,
    TrainingRun,
    Truncate,
)

DEFAULT_MINUTES = 10
MAX_PASSES = 60  # over the text; more teach little
BATCH_TOKENS = {"cuda": 32_768, "cpu": 4_096}
MICRO_TOKENS = {"cuda": 65_536, "cpu": 16_384}
COMPILED_STEPS, COMPILED_MINUTES = 500, 1  # a shorter training does not repay compiling
DOCUMENT_LOSS = {"cuda": 0.0, "cpu": 1.0}
Balance = Literal["none", "weights"]  # whether rare classes count more in the loss
DEFAULT_TRANSLATORS = {"cuda": "translator-medium", "cpu": "translator-small"}


class Masking(Settings, panel="Training"):
    """What masked pretraining masks and predicts."""

    mask_rate: float = option("masked: share of tokens masked", 0.3, above=0, most=0.9)
    whole_words: bool = advanced("masked: mask all pieces of a word together", False)
    nsp: bool = option("masked: predict next sentences too", False)
    document_loss: float | None = advanced(
        "masked: weight of predicting a text's masked tokens from its mean vector; default: "
        f"{DOCUMENT_LOSS['cuda']:g} on a GPU, {DOCUMENT_LOSS['cpu']:g} without",
        None,
        least=0,
        metavar="WEIGHT",
    )
    semantic_start: bool | None = advanced(
        "masked: embeddings start from which tokens occur together; default: not on a GPU", None
    )

    def refuse_unused(self) -> None:
        """Refuse masking settings where nothing is masked."""
        is_set = {
            "--mask-rate": self.mask_rate != Masking.mask_rate,
            "--whole-words": self.whole_words,
            "--nsp": self.nsp,
            "--document-loss": self.document_loss is not None,
            "--semantic-start": self.semantic_start is not None,
        }
        for flag in filter(is_set.get, is_set):
            raise WarmstartError(f"{flag} has no effect without --objective masked")


class PretrainConfig(
    Documents,
    TextColumn,
    RemoteFiles,
    Architecture,
    TrainedTokenizer,
    Masking,
    TrainingRun,
    panel="Training",
):
    """Text in, pretrained backbone out."""

    files: tuple[str, ...] = argument("text files, folders or globs", holds_rows=True)
    valid: tuple[str, ...] = option(
        "validation text; default: 1%, chosen by content",
        (),
        panel="Input and output",
        holds_rows=True,
    )
    from_run: str | None = option("run to start from", None, key="from", panel="Input and output")
    objective: str | None = option(
        "masked: restore masked tokens; causal: predict next tokens; default: that of --from, or "
        "masked",
        None,
        metavar="NAME",
    )
    ablate: Ablation = advanced(
        "part to leave out, to see what it is for: mask, scale, positions, residual, norm, warmup",
        "nothing",
        metavar="PART",
        panel="Model",
    )
    steps: int | None = option(
        "optimizer steps, instead of --minutes",
        None,
        least=1,
        fixed=False,
        excludes=("tokens", "minutes"),
    )
    tokens: int | None = option(
        "tokens to train on, instead of --minutes",
        None,
        least=1,
        fixed=False,
        excludes=("minutes",),
    )
    minutes: float | None = option(
        f"time to take in all, or less: at most {MAX_PASSES} passes over the text; default: "
        f"{DEFAULT_MINUTES}",
        None,
        above=0,
        fixed=False,
    )
    batch_tokens: int | None = option(
        f"tokens per optimizer step; default: {BATCH_TOKENS['cuda']} on a GPU, "
        f"{BATCH_TOKENS['cpu']} without",
        None,
        least=2,
    )
    micro_tokens: int | None = option(
        "tokens per forward pass, fewer need less memory; default: by device", None, least=2
    )
    optimizer: Optimizer = option("muon: for the matrices of the blocks", "muon")
    learning_rate: float | None = option(
        "peak; default: by optimizer and norm position", None, above=0, most=MAX_RATE
    )
    weight_decay: float = advanced("decoupled, on matrices", 0.1, least=0, most=MAX_RATE)
    warmup: float = advanced("share of steps with a rising learning rate", 0.05, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    eval_every: int | None = option(
        "steps between validations; default: 5%, at least 200", None, least=1
    )
    log_every: int = advanced("steps between lines in metrics.jsonl", 10, least=1)
    ray: str | None = advanced(
        "tokenize on this Ray cluster; auto: the one found, or here",
        None,
        metavar="ADDRESS",
        recorded=False,
        panel="Machine",
    )
    compile: bool | None = advanced(
        f"use torch.compile; default: on CUDA, from {COMPILED_STEPS} steps on", None, fixed=False
    )

    @property
    def time(self) -> float | None:
        """Return the minutes to take, from the start of the command; None: by steps or tokens."""
        return self.minutes or (None if self.steps or self.tokens else DEFAULT_MINUTES)

    def rows_per_step(self, max_length: int) -> int:
        """Return the number of full rows of text in an optimizer step."""
        assert self.batch_tokens is not None
        return max(1, self.batch_tokens // max_length)

    def is_compiled(self, steps: int, device: str) -> bool:
        """Tell whether to compile the backbone for a training of at most `steps` steps."""
        if self.compile is not None:
            return self.compile
        is_long = steps >= COMPILED_STEPS and (self.time or COMPILED_MINUTES) >= COMPILED_MINUTES
        return device == "cuda" and is_long

    def num_steps(self, max_length: int, text_tokens: int, filled: float = 1.0) -> int:
        """Return the optimizer steps to run at most; they see the tokens asked for.

        Without a number, they read the text as often as it can be of use. `filled` is the share
        of a row that is not padding.
        """
        if self.steps:
            return self.steps
        tokens = self.tokens or MAX_PASSES * text_tokens
        step_tokens = self.rows_per_step(max_length) * max_length
        if filled == 1.0:
            return -(-tokens // step_tokens)  # exact for any int, unlike math.ceil
        return max(1, math.ceil(tokens / (step_tokens * filled)))


class Tuning(Settings, panel="Training"):
    """How a classifier is trained."""

    epochs: int | None = option(
        "passes over the labelled texts; default: 40 to 3, fewer with more texts", None, least=1
    )
    batch_size: int = option("texts per optimizer step", 16, least=1)
    micro_tokens: int = option("padded tokens per forward pass", 8192, least=2)
    learning_rate: float | None = option(
        "peak; default: by arm and norm position", None, above=0, most=MAX_RATE
    )
    weight_decay: float = advanced("decoupled, on matrices", 0.01, least=0, most=MAX_RATE)
    warmup: float = advanced("share of steps with a rising learning rate", 0.1, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    layer_decay: float | None = advanced(
        "rate of a block relative to the next; default: 0.65 if warm", None, above=0, most=1
    )
    unfreeze: bool = advanced("one more block each epoch, head first", False)
    pooling: Pooling = option("positions of the text vector", "mean")
    truncate: Truncate | None = option("what overlong texts keep; default: by task", None)
    balance: Balance = option("weights: rare classes count more", "none")
    select: Literal["accuracy", "f1"] = option("metric that selects", "accuracy")
    keep_epoch: Literal["last", "best"] = option("epoch whose weights are kept", "last")
    compile: bool | None = advanced(
        "replay recorded steps, compile what many models share; default: on CUDA",
        None,
        fixed=False,
    )
    classifier_dropout: float = advanced("before the classification head", 0.1, least=0, most=0.95)


class FinetuneConfig(
    LabelledFiles, Architecture, ModelTokenizer, Tuning, TrainingRun, panel="Training"
):
    """Labelled texts in, classifier out."""

    from_run: str | None = option(
        "pretrained run to start from; without it: cold start",
        None,
        key="from",
        panel="Input and output",
    )
    frozen: bool = option("train only the head", False)
    epochs: int | None = option(
        "passes over the labelled texts; default: 40 to 3, fewer with more texts",
        None,
        least=1,
        fixed=False,
    )
    minutes: float | None = option(
        "time to take in all: fewer steps than --epochs where these do not fit",
        None,
        above=0,
        fixed=False,
    )
    labels: int | None = option("labelled texts to use; default: all", None, least=2)
    soft_labels: bool = advanced("learn the columns probability_… that predict writes", False)
    teacher: tuple[str, ...] = advanced(
        "classifier whose answers to --unlabelled are learned, too; may repeat",
        (),
        metavar="RUN",
    )
    unlabelled: tuple[str, ...] = advanced(
        "texts for --teacher; default: those --from was pretrained on",
        (),
        holds_rows=True,
    )
    teacher_texts: int = advanced("texts that teachers label at most", 10_000, least=8)

    @property
    def reads_shares(self) -> bool:
        return self.soft_labels

    @property
    def learns_shares(self) -> bool:
        """Tell whether probabilities are learned, which no head can be solved for."""
        return self.soft_labels or bool(self.teacher)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unlabelled and not self.teacher:
            raise WarmstartError("--unlabelled needs --teacher, a run that labels these texts")
        if self.teacher and self.pieces:
            raise WarmstartError("--teacher and --pieces exclude each other: it reads whole texts")


class PairFiles(TableFormat):
    """The sentence pairs to train on and to validate on."""

    needs_pairs: ClassVar[bool] = True  # False: they may be left out altogether
    source: str | None = option("sentences, one per line", None)
    target: str | None = option("their translations, one per line", None)
    valid_source: str | None = option("sentences to validate on", None)
    valid_target: str | None = option("their translations", None)
    train: str | None = option("table of both sides, not --source --target", None, holds_rows=True)
    valid: str | None = option("table of both sides to validate on", None, holds_rows=True)
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
            if self.needs_pairs and not getattr(self, table) and not all(is_given):
                raise WarmstartError(f"give {flags}, or --{table} with both sides")
        if self.columns and not (self.train or self.valid):
            raise WarmstartError("--columns needs --train or --valid: plain lines have no columns")


class TranslatorArchitecture(ArchitectureOverrides, TrainedTokenizer, panel="Model"):
    """A preset with a decoder, what to change in it, and its tokenizers."""

    preset: str | None = option(
        f"default: {DEFAULT_TRANSLATORS['cuda']}; CPU: {DEFAULT_TRANSLATORS['cpu']}",
        None,
        metavar="NAME",
        excludes=("from",),
    )
    decoder_depth: int | None = option("blocks of the decoder", None, least=1)
    shared: bool | None = advanced("source and target share one embedding", None)
    vocabulary: Literal["joint", "separate"] = option("one tokenizer or one per language", "joint")
    target_tokenizer: str | None = option("tokenizer of the target language", None)


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
