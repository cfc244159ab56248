"""The settings of `demo`, `samples`, `doctor`, `data`, `tokenizer` and `verify-resume`."""

from typing import Literal

from warmstart.settings.base import Settings, argument, option
from warmstart.settings.shared import (
    MAX_VOCAB_SIZE,
    MIN_VOCAB_SIZE,
    Documents,
    LabelledColumns,
    Machine,
    TextColumn,
    TokenizerKind,
)

Language = Literal["english", "french"]
KilledCommand = Literal["pretrain", "finetune", "compare", "train-translator"]


class DemoConfig(Machine):
    """Nothing in, report on built-in data out."""

    out: str = option("folder to write", "demo", short="-o", recorded=False)
    resume: bool = option("continue the demo in the folder", False, recorded=False, panel="Saving")


class SamplesConfig(Settings):
    """Nothing in, the built-in texts as files out."""

    out: str = option("folder to write", short="-o", recorded=False)
    language: Language = option("of the reviews; sentence pairs have both", "english")
    seed: int = option("determines every text", 0, least=0)


class DoctorConfig(Machine):
    """Nothing in, findings on the installation and the machine out."""


class DataConfig(LabelledColumns):
    """Files in, report on them out."""

    files: tuple[str, ...] = argument("text or labelled files")
    labels: tuple[str, ...] = option("label file of each text file, in order", ())
    tokenizer: str | None = option("tokenizer, or run that has one, to count tokens with", None)
    max_length: int | None = option("count texts longer than this, in tokens", None, least=3)
    against: str | None = option("run; report which texts occur in its training data", None)


class TokenizerConfig(Documents, TextColumn):
    """Text in, tokenizer out."""

    files: tuple[str, ...] = argument("text files, folders or globs")
    out: str = option("folder to write", short="-o", recorded=False)
    kind: TokenizerKind = option("algorithm", "bpe")
    vocab_size: int = option(
        "entries, including special tokens", 16_000, least=MIN_VOCAB_SIZE, most=MAX_VOCAB_SIZE
    )
    sample_mb: int = option("megabytes of text to learn from, at most", 100, least=1)


class VerifyResumeConfig(Machine, panel="Training"):
    """A job in, proof out that it survives being killed."""

    job: str | None = argument("TOML file or config.json of a job; default: tiny pretraining", None)
    command: KilledCommand = option(
        "command of a TOML file; config.json names its own",
        "pretrain",
        metavar="NAME",
        panel="Input and output",
    )
    out: str | None = option(
        "folder for the runs; default: a temporary one", None, short="-o", panel="Input and output"
    )
    kills: int = option("times a run is killed with SIGKILL", 10, least=1)
    steps: int = option("steps of a pretraining; other jobs run few epochs", 60, least=4)
    save_every: int = option("steps between checkpoints", 5, least=1, panel="Saving")
