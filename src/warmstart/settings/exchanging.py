"""The settings of `import` and `export`."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option


@dataclass(frozen=True, kw_only=True)
class ImportConfig(Settings):
    """A Hugging Face folder in, run folder out."""

    folder: str = option(
        help="Hugging Face folder of a BERT, RoBERTa, GPT-2 or Llama", positional=True
    )
    out: str = option(help="run folder to write", short="-o", recorded=False)


@dataclass(frozen=True, kw_only=True)
class ExportConfig(Settings):
    """A run folder in, Hugging Face folder out."""

    run: str = option(help="run folder", positional=True)
    to: Literal["hf"] = option("hf", help="hf: a folder that transformers loads")
    out: str = option(help="folder to write", short="-o", recorded=False)
