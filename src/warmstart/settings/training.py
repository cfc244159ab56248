"""The settings of every job; a command takes exactly these, on the command line or in TOML.

Knows nothing about how a job is done.
"""

import math
from dataclasses import dataclass
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, option
from warmstart.settings.masking import Masking
from warmstart.settings.model import ArchitectureOverrides, Attention, Shape

Pooling = Literal["cls", "last", "mean"]
Truncate = Literal["head", "tail", "middle"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a job runs, and its randomness."""

    seed: int = option(0, help="every random choice follows from it", least=0)
    device: Literal["auto", "cpu", "cuda"] = option("auto", help="auto, cpu or cuda", fixed=False)
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", help="auto, fp32 or bf16; auto takes bf16 where the machine computes in it"
    )
    threads: int | None = option(
        None, help="CPU threads; default: all cores", least=1, most=1024, fixed=False
    )


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The folder a job writes."""

    out: str = option(help="folder to write", short="-o", recorded=False)
    resume: bool = option(False, help="go on with the run in the folder", recorded=False)
    changed_data: bool = option(
        False, help="resume although the data changed since the run began", recorded=False
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """How often a run is saved."""

    save_every: int = option(500, help="steps between checkpoints", least=1, fixed=False)
    save_minutes: float = option(10.0, help="minutes between checkpoints", above=0, fixed=False)
    keep: int = option(2, help="newest checkpoints to keep", least=1, fixed=False)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(Masking, Shape, Checkpoints, Destination, Machine, Settings):
    """Text in, pretrained base out."""

    files: tuple[str, ...] = option(help="text files, folders or globs", positional=True)
    valid: tuple[str, ...] = option((), help="validation text; default: 1% chosen by content")
    objective: Literal["causal", "masked"] = option(
        "causal", help="causal: predict the next token; masked: restore hidden tokens"
    )
    document: Literal["auto", "line", "blank"] = option(
        "auto", help="what ends a document in .txt: auto, line or blank"
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)
    tokenizer: str | None = option(None, help="tokenizer or run to take it from; default: train")
    kind: Literal["bpe", "unigram"] = option("bpe", help="tokenizer to train: bpe or unigram")
    vocab_size: int | None = option(
        None, help="vocabulary of the trained tokenizer; default: the preset's", least=261
    )
    from_run: str | None = option(None, key="from", help="run to go on from: a second stage")
    steps: int | None = option(
        None, help="optimizer steps; default 1000", least=1, excludes="tokens"
    )
    tokens: int | None = option(
        None, help="tokens to see, instead of steps", least=1, excludes="steps"
    )
    batch_tokens: int = option(8192, help="tokens per optimizer step", least=2)
    micro_tokens: int = option(
        16_384, help="tokens per forward pass; less needs less memory", least=2
    )
    optimizer: Literal["adamw", "muon"] = option("muon", help="adamw or muon")
    learning_rate: float | None = option(
        None, help="peak rate; default: by optimizer and norm norm_position", above=0
    )
    weight_decay: float = option(0.1, help="decoupled weight decay on matrices", least=0)
    warmup: float = option(0.05, help="share of steps with a rising rate", least=0, most=1)
    clip: float = option(1.0, help="largest gradient norm", above=0)
    eval_every: int = option(200, help="steps between validations", least=1)
    log_every: int = option(10, help="steps between lines in metrics.jsonl", least=1)
    compile: bool | None = option(None, help="torch.compile; default: on CUDA only", fixed=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == "causal":
            self.refuse_masking()

    def rows_per_step(self, max_length: int) -> int:
        """Return how many full rows of text an optimizer step sees."""
        return max(1, self.batch_tokens // max_length)

    def num_steps(self, max_length: int, filled: float = 1.0) -> int:
        """Return the optimizer steps asked for; they see no fewer than the tokens asked for.

        `filled` is the share of a row that is not padding.
        """
        if self.tokens is None:
            return self.steps or 1000
        in_step = self.rows_per_step(max_length) * max_length
        if filled == 1.0:
            return -(-self.tokens // in_step)  # upwards
        return max(1, math.ceil(self.tokens / (in_step * filled)))


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a classifier is trained."""

    epochs: int = option(8, help="passes over the labelled texts", least=1)
    batch_size: int = option(16, help="texts per optimizer step", least=1)
    micro_tokens: int = option(
        8192, help="padded tokens per forward pass; less needs less memory", least=2
    )
    learning_rate: float | None = option(
        None, help="peak rate; default: by arm and norm norm_position", above=0
    )
    weight_decay: float = option(0.01, help="decoupled weight decay on matrices", least=0)
    warmup: float = option(0.1, help="share of steps with a rising rate", least=0, most=1)
    clip: float = option(1.0, help="largest gradient norm", above=0)
    layer_decay: float = option(
        1.0, help="rate of each block relative to the one above it", above=0, most=1
    )
    unfreeze: bool = option(
        False, help="gradual unfreezing: head first, then one block more each epoch"
    )
    pooling: Pooling = option("mean", help="text vector: cls (first), last or mean position")
    truncate: Truncate = option(
        "head", help="what a text longer than --max-length keeps: head, tail or middle"
    )
    balance: Literal["weights", "none"] = option(
        "weights", help="weights: rare classes weigh more in the loss; none: as they come"
    )
    select: Literal["accuracy", "f1"] = option(
        "accuracy", help="validation figure that picks the best epoch"
    )
    classifier_dropout: float = option(
        0.1, help="dropout before the classification head", least=0, most=0.95
    )


@dataclass(frozen=True, kw_only=True)
class LabelledFiles:
    """The labelled texts to learn from and to choose by."""

    train: str = option(help="labelled texts to train on")
    valid: str = option(help="labelled texts to choose by")
    train_labels: str | None = option(None, help="labels of --train, a line each")
    valid_labels: str | None = option(None, help="labels of --valid, a line each")
    columns: tuple[str, ...] = option(
        (), help="columns in file order, e.g. label,text", listed=True
    )
    pieces: bool = option(False, help="texts are already split into pieces")


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(LabelledFiles, Tuning, Shape, Checkpoints, Destination, Machine, Settings):
    """Labelled texts in, classifier out."""

    from_run: str | None = option(
        None, key="from", help="pretrained run to start from; without it: cold"
    )
    frozen: bool = option(False, help="train the head alone")
    tokenizer: str | None = option(None, help="tokenizer of a cold start; default: train one")
    vocab_size: int | None = option(
        None, help="vocabulary of the trained tokenizer; default: the preset's", least=261
    )


@dataclass(frozen=True, kw_only=True)
class CompareConfig(LabelledFiles, Tuning, Destination, Machine, Settings):
    """Pretrained runs and labelled texts in, verdict out."""

    from_runs: tuple[str, ...] = option(key="from", help="pretrained run; repeat for several")
    test: str | None = option(None, help="labelled texts scored once, at the end")
    test_labels: str | None = option(None, help="labels of --test, a line each")
    labels: tuple[str, ...] = option(
        ("all",), help="sizes of the nested label subsets, e.g. 50,100,400,all", listed=True
    )
    seeds: tuple[int, ...] = option(
        (0, 1, 2), help="seeds of every arm, e.g. 0,1,2", least=0, listed=True
    )
    trials: int = option(3, help="settings tried on validation for each arm", least=1, most=9)
    max_length: int | None = option(None, help="longest text in tokens", least=3)
    title: str = option("warm start against cold", help="title of the report", fixed=False)
    attainable: float | None = option(
        None, help="best accuracy possible, where known", hidden=True, fixed=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise WarmstartError(f"--seeds {list(self.seeds)} must be different numbers")
        for size in self.labels:
            if size != "all" and (not size.isdecimal() or int(size) < 2):
                raise WarmstartError(f"--labels {size!r} must be a number from 2 up, or all")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Settings):
    """Text in, tokenizer out."""

    files: tuple[str, ...] = option(help="text files, folders or globs", positional=True)
    out: str = option(help="folder to write", short="-o", recorded=False)
    kind: Literal["bpe", "unigram"] = option("bpe", help="bpe or unigram")
    vocab_size: int = option(16_000, help="entries, special tokens included", least=261)
    sample_mb: int = option(100, help="megabytes of text to learn from, at most", least=1)
    document: Literal["auto", "line", "blank"] = option(
        "auto", help="what ends a document in .txt: auto, line or blank"
    )
    columns: tuple[str, ...] = option(("text",), help="column that holds the text", listed=True)


@dataclass(frozen=True, kw_only=True)
class DataConfig(Settings):
    """Files in, report on them out."""

    files: tuple[str, ...] = option(help="text or labelled files", positional=True)
    columns: tuple[str, ...] = option(
        (), help="columns in file order, e.g. label,text", listed=True
    )
    labels: tuple[str, ...] = option((), help="label file of each text file, in order")
    pieces: bool = option(False, help="texts are already split into pieces")
    tokenizer: str | None = option(None, help="count tokens with this tokenizer or run's")
    max_length: int | None = option(None, help="count texts longer than this", least=3)
    against: str | None = option(None, help="run whose pretraining texts are looked for")


@dataclass(frozen=True, kw_only=True)
class ParamsConfig(ArchitectureOverrides, Settings):
    """A shape in, its parameters out."""

    model: str = option(help="preset or run folder", positional=True)
    head: Literal["all", "lm", "classifier", "none"] = option(
        "all", help="all pretraining heads, lm, classifier or none"
    )
    labels: int = option(2, help="classes of the classifier", least=2)
    frozen: bool = option(False, help="base frozen: only the head is trainable")
    vocab_size: int | None = option(None, help="entries in the vocabulary", least=1)
    attention: Attention | None = option(None, help="causal or bidirectional")
    segments: int | None = option(None, help="kinds of segment with an embedding", least=0)
    pooler: bool | None = option(None, help="dense + tanh over the first position")
    transform: bool | None = option(None, help="dense + norm before the output weights")


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Machine, Settings):
    """Nothing in, the whole story out."""

    out: str = option("demo", help="folder to write", short="-o", recorded=False)
    resume: bool = option(False, help="go on with the demo in the folder", recorded=False)
