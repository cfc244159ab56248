"""Settings that several commands share: input files, tokenizers, saving, the machine."""

import codecs
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.files import is_stream
from warmstart.settings.base import Settings, advanced, argument, option

Optimizer = Literal["adamw", "muon"]
Pooling = Literal["cls", "last", "mean"]  # which positions make the vector of a text
TokenizerKind = Literal["bpe", "unigram"]
Truncate = Literal["head", "tail", "middle"]  # the part of an overlong text that is used
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Tracker = Literal["tensorboard", "mlflow", "wandb", "trackio"]
MIN_VOCAB_SIZE = 261  # the bytes and the special tokens
MAX_VOCAB_SIZE = 1 << 24  # libraries take memory for as many entries at once
MAX_RATE = 1e6  # far above all use, and far below what single precision cannot hold


class TableFormat(Settings):
    """How tables are written: which columns, and what is between and inside them."""

    columns: tuple[str, ...] = option(
        "e.g. label,text or text=body; default: found",
        (),
        comma_separated=True,
        metavar="NAMES",
    )
    delimiter: str | None = advanced(
        "between the fields of .csv and .tsv, e.g. ';' or tab; default: found", None, metavar="CHAR"
    )
    encoding: str = advanced("of text files, e.g. cp1252 or utf-16", "utf-8", metavar="NAME")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _delimiter(self.delimiter))
        object.__setattr__(self, "encoding", _encoding(self.encoding))


def _delimiter(value: str) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(value, value)
    if len(character) != 1 or character in '"\r\n\0':
        raise WarmstartError(f"--delimiter {value!r} must be one character, such as ; or tab")
    return character


def _encoding(value: str) -> str:
    try:
        "".encode(value)  # refuses codecs that are not for text
        return codecs.lookup(value).name
    except (LookupError, UnicodeError, ValueError):
        raise WarmstartError(
            f"--encoding {value!r} is unknown; usual ones are utf-8, cp1252, latin-1 and utf-16"
        ) from None


class TextColumn(TableFormat):
    """The column of a table that holds the texts."""

    columns: tuple[str, ...] = option(
        "column of the text, e.g. text=body; default: found",
        (),
        comma_separated=True,
        metavar="NAMES",
    )


class WrittenFile(Settings, panel="Input and output"):
    """The file to write; what it holds already is not lost by mistake."""

    out: str | None = option("file to write; default: standard output", None, short="-o")
    overwrite: bool = option("replace the file of -o, if it exists", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_existing()

    def refuse_existing(self) -> None:
        """Refuse to replace a file unless --overwrite says so; asked again before it is written."""
        path = Path(self.out or "")
        if not self.out or self.overwrite or not path.is_file() or is_stream(path):
            return
        if path.stat().st_size:
            raise WarmstartError(
                f"-o {self.out} exists already: add --overwrite to replace it, or name another file"
            )


class TextLines(TextColumn, WrittenFile):
    """The texts to read and the file to write, one line per text."""

    file: str | None = argument(
        "one text per line; default, or -: standard input", None, holds_rows=True
    )
    text: str | None = option(
        "one text, instead of a file", None, metavar="TEXT", excludes=("file",)
    )

    def __post_init__(self) -> None:
        if self.text is not None and not self.text.strip():
            raise WarmstartError("--text is empty: give the text to read")
        if self.file and self.out and os.path.realpath(self.file) == os.path.realpath(self.out):
            raise WarmstartError(f"-o {self.out} is the input file; name another file")
        super().__post_init__()


class RemoteFiles(Settings):
    """What URLs among the input files may lead to."""

    allow_private_urls: bool = advanced(
        "read URLs that lead to this machine or to private networks", False, fixed=False
    )


class Documents(Settings):
    """How files of plain text are split into documents."""

    document: Literal["auto", "line", "blank"] = option("end of a document in .txt files", "auto")


class SplitTexts(Settings):
    """Whether texts are split into pieces already."""

    pieces: bool = option("texts are already split into pieces", False)


class LabelledColumns(TableFormat, SplitTexts):
    """How labelled texts are written in tables."""


class LabelledFiles(LabelledColumns, RemoteFiles):
    """The labelled texts to train on and to validate on."""

    train: tuple[str, ...] = option("labelled texts to train on; may repeat", holds_rows=True)
    valid: str | None = option(
        "texts to validate on; default: 20% of --train", None, holds_rows=True
    )
    train_labels: tuple[str, ...] = option("labels of --train, one per line", ())
    valid_labels: str | None = option("labels of --valid, one per line", None)
    task: str = option("what to learn; auto: by the file", "auto", metavar="NAME", panel="Training")

    @property
    def reads_shares(self) -> bool:
        """Tell whether the texts to train on have a probability for every class."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_labels and not self.valid:
            raise WarmstartError("--valid-labels needs --valid, which is missing")


class ModelTokenizer(Settings, panel="Model"):
    """The tokenizer of a new model."""

    tokenizer: str | None = option("tokenizer, or run that has one; default: train one", None)
    vocab_size: int | None = option(
        "size of the trained tokenizer; default: the preset's",
        None,
        least=MIN_VOCAB_SIZE,
        most=MAX_VOCAB_SIZE,
    )


class TrainedTokenizer(ModelTokenizer, panel="Model"):
    """The tokenizer of a new model, and the kind to train."""

    tokenizer_kind: TokenizerKind = advanced("kind of tokenizer to train", "bpe")


class Destination(Settings, panel="Saving"):
    """The folder a job writes."""

    out: str = option("folder to write", short="-o", recorded=False, panel="Input and output")
    resume: bool = option("continue the run in the folder", False, recorded=False)
    changed_data: bool = advanced(
        "resume although the data has changed since the run started", False, recorded=False
    )


class Checkpoints(Settings, panel="Saving"):
    """How often a run is saved, and where its metrics are shown."""

    save_every: int = option("steps between checkpoints", 500, least=1, fixed=False)
    save_minutes: float = advanced("minutes between checkpoints", 10.0, above=0, fixed=False)
    keep: int = advanced("checkpoints to keep, newest first", 2, least=1, fixed=False)
    track: Tracker | None = advanced(
        "show the metrics in this program too; default: metrics.jsonl alone", None, recorded=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.track and find_spec(self.track) is None:
            package = "'warmstart[track]'" if self.track == "tensorboard" else self.track
            raise WarmstartError(
                f"--track {self.track} needs {self.track}, which is not installed: pip install "
                f"{package}, or leave out --track: metrics.jsonl is always written"
            )


class Machine(Settings, panel="Machine"):
    """Where a job runs, and its randomness."""

    device: Device = option("auto: a GPU if there is one", "auto", fixed=False)
    precision: Precision = option("auto: bf16 or fp16 where it is fast", "auto")
    threads: int | None = option("CPU threads; default: all", None, least=1, most=1024, fixed=False)
    seed: int = option("determines every random choice", 0, least=0)


class SeveralProcesses(Settings, panel="Machine"):
    """How many processes share the work on this machine."""

    processes: str | None = advanced(
        "processes to start here: a number, or auto: one per GPU",
        None,
        metavar="auto|N",
        recorded=False,
    )

    def __post_init__(self) -> None:
        if isinstance(self.processes, int):
            object.__setattr__(self, "processes", str(self.processes))
        super().__post_init__()
        if self.processes is not None and not _is_auto_or_positive(self.processes):
            raise WarmstartError(
                f"--processes {self.processes} is not allowed: give auto or a number of at least 1"
            )


def _is_auto_or_positive(value: str) -> bool:
    return value == "auto" or (value.isdecimal() and value.isascii() and int(value) > 0)


class TrainingRun(Destination, Checkpoints, Machine, SeveralProcesses, panel="Machine"):
    """Where a run is trained and how it is saved."""

    shard: bool = advanced(
        "divide weights, gradients and optimizer state over the processes", False, fixed=False
    )
    checkpoint_activations: bool = advanced(
        "compute blocks again in the backward pass: less memory, more time", False, fixed=False
    )
    compile: bool | None = advanced("compile steps; default: on CUDA only", None, fixed=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shard and not self.checkpoint_activations:
            return
        if self.compile:
            flag = "--shard" if self.shard else "--checkpoint-activations"
            raise WarmstartError(f"--compile does not work with {flag}: leave one of them out")
        object.__setattr__(self, "compile", False)
