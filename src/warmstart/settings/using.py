"""The settings of the commands that prepare files and that use a run."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, advanced, argument, option
from warmstart.settings.shared import (
    MAX_VOCAB_SIZE,
    MIN_VOCAB_SIZE,
    Documents,
    LabelledColumns,
    Machine,
    Pooling,
    Precision,
    RemoteFiles,
    SplitTexts,
    TextColumn,
    TextLines,
    TokenizerKind,
    Truncate,
    WrittenFile,
)
from warmstart.textfiles import format_of, is_compressed

Overlong = Literal["split", "refuse"]
Language = Literal["english", "french"]


class Beam(Settings, panel="Decoding"):
    """How translations are searched for."""

    beam: int = option("size of the beam; 1: greedy", 5, least=1, most=1000)
    length_penalty: float = option("0: none; more: longer translations", 1.0, least=0, most=10)
    max_ratio: float = option(
        "longest translation, in source lengths (plus 10 tokens)", 2.0, above=0, most=1000
    )
    batch_tokens: int | None = option("per batch; default: 4096, on CUDA 16384", None, least=1)


class EvaluateConfig(LabelledColumns, Documents, Beam, Machine):
    """A run and held-out data in, scores out."""

    run: str = argument("run folder")
    test: str | None = option(
        "labelled texts, plain text or a table of pairs", None, holds_rows=True
    )
    test_labels: str | None = option("labels of --test, one per line", None)
    source: str | None = option("sentences for a translator, one per line", None)
    target: str | None = option("their translations, one per line", None)
    against: str | None = option("second translator, compared by a paired test", None)


class WrittenTable(WrittenFile, panel="Input and output"):
    """The table to write: the rows of the input with new columns."""

    out: str | None = option(
        ".csv .tsv .xlsx .jsonl .parquet: the input with new columns; "
        "any other name: one label per line",
        None,
        short="-o",
    )
    raw_cells: bool = advanced(
        "write cells of .csv and .tsv that begin with = + - @ without an apostrophe", False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out is not None and Path(self.out).is_dir():
            raise WarmstartError(f"-o {self.out} is a folder; name a file")
        if self.out is not None and is_compressed(Path(self.out)):
            plain = Path(self.out).with_suffix("")
            raise WarmstartError(f"-o {self.out}: compressed files are not written; name {plain}")
        if self.out is not None and format_of(Path(self.out)) == "workbook":
            _check_workbook(Path(self.out))


def _check_workbook(path: Path) -> None:
    """Refuse, before any work, a workbook that cannot be written."""
    if path.suffix.lower() != ".xlsx":
        raise WarmstartError(
            f"-o {path}: of workbooks, only .xlsx is written; name {path.stem}.xlsx"
        )
    if find_spec("xlsxwriter") is None:
        raise WarmstartError(
            f"-o {path}: writing workbooks needs XlsxWriter; pip install 'warmstart[excel]', "
            f"or name {path.with_suffix('.csv')}"
        )


class PredictConfig(WrittenTable, TextLines, SplitTexts, Machine):
    """A classifier and texts in, labels out."""

    run: str = argument("run folder of a classifier")
    text2: str | None = option("its second text, for a model of pairs", None, metavar="TEXT")
    threshold: float | None = option(
        "answer 'unsure' where the probability is below this", None, least=0, most=1
    )
    explain: bool = option("tell which words decided: each is left out in turn", False)
    unusual: bool = option("mark texts unlike those that the run was trained on", False)
    like: str | None = option(
        "usual texts for --unusual; default: the labelled texts of the run", None, holds_rows=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.like is not None and not self.unusual:
            raise WarmstartError("--like names usual texts for --unusual: give --unusual too")
        if self.text2 is not None and self.text is None:
            raise WarmstartError("--text2 is the second text of a pair: give --text too")


class FillMaskConfig(TextLines, SplitTexts, Machine):
    """A masked language model and texts in, probable words out."""

    run: str = argument("run folder of a masked language model")
    top_k: int = option("words for each mask", 5, least=1, panel="Decoding")


class Sampling(Settings, panel="Decoding"):
    """How the next token is drawn."""

    temperature: float = option("0: the most likely token each time", 0.8, least=0)
    top_k: int | None = option("sample from the k most likely tokens", None, least=1)
    top_p: float | None = option(
        "sample from the most likely tokens with this total probability", None, above=0, most=1
    )


class GenerateConfig(Sampling, WrittenFile, Machine, panel="Decoding"):
    """A language model and a prompt in, text out."""

    run: str = argument("run folder of a causal language model")
    prompt: str = option("text to continue", "", metavar="TEXT", panel="Input and output")
    num: int = option("texts to write", 1, least=1, panel="Input and output")
    max_tokens: int = option("tokens to add, at most", 100, least=1)


class EmbedConfig(TextLines, SplitTexts, Machine, panel="Model"):
    """A run and texts in, vectors out."""

    run: str = argument("run folder of any model")
    out: str | None = option(
        ".npy .npz .jsonl .parquet; default: standard output",
        None,
        short="-o",
        panel="Input and output",
    )
    pooling: Pooling = option("positions of the text vector", "mean")
    layer: int | None = option("block of the vectors; 0: embeddings; default: last", None, least=0)
    tokens: bool = option("one vector per token instead of per text", False)
    normalize: bool = option("scale every vector to length 1", False)
    truncate: Truncate | None = option("part used of an overlong text; default: the run's", None)
    precision: Precision = option(
        "auto, bf16, fp16: faster, less exact; the deviation is printed", "fp32", panel="Machine"
    )
    micro_tokens: int = option(
        "padded tokens per forward pass; fewer need less memory", 8192, least=2, panel="Machine"
    )


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


class DataConfig(LabelledColumns, RemoteFiles):
    """Files in, report on them out."""

    files: tuple[str, ...] = argument("text or labelled files", holds_rows=True)
    labels: tuple[str, ...] = option("label file of each text file, in order", ())
    tokenizer: str | None = option("tokenizer, or run that has one, to count tokens with", None)
    max_length: int | None = option("count texts longer than this, in tokens", None, least=3)
    against: str | None = option(
        "run; report its training texts among these and, if it predicts labels, drift", None
    )


class StartConfig(LabelledColumns, RemoteFiles):
    """Files in, what to run with them out."""

    files: tuple[str, ...] = argument(
        "what there is: texts, labelled texts, or both", holds_rows=True
    )


class TokenizerConfig(Documents, TextColumn, RemoteFiles):
    """Text in, tokenizer out."""

    files: tuple[str, ...] = argument("text files, folders or globs", holds_rows=True)
    out: str = option("folder to write", short="-o", recorded=False)
    kind: TokenizerKind = option("algorithm", "bpe")
    vocab_size: int = option(
        "entries, including special tokens", 16_000, least=MIN_VOCAB_SIZE, most=MAX_VOCAB_SIZE
    )
    sample_mb: int = option("megabytes of text to learn from, at most", 100, least=1)


class TranslateConfig(TextLines, Beam, Machine):
    """A translator and sentences in, translations out."""

    run: str = argument("run folder of a translator")
    n_best: int = option("translations of each sentence", 1, least=1)
    scores: bool = option("print each translation's score before it", False)
    overlong: Overlong = option("sentences longer than the model reads", "split")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise WarmstartError(
                f"--n-best {self.n_best} is more than --beam {self.beam}: widen the beam"
            )
