"""The settings of `import` and `export`."""

from typing import Literal

from warmstart.settings.base import Settings, argument, option


class ImportConfig(Settings):
    """A Hugging Face folder in, run folder out."""

    folder: str = argument("Hugging Face folder of a BERT, RoBERTa, GPT-2 or Llama")
    out: str = option("run folder to write", short="-o", recorded=False)


class ExportConfig(Settings):
    """A run folder in, Hugging Face folder out."""

    run: str = argument("run folder")
    to: Literal["hf"] = option("hf: a folder that transformers loads", "hf")
    out: str = option("folder to write", short="-o", recorded=False)
