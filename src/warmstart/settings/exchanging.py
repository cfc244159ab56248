"""The settings of `import` and `export`."""

from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, argument, option

ExportTarget = Literal["hf", "onnx", "ctranslate2"]
ExportPrecision = Literal["fp32", "int8"]


class ImportConfig(Settings):
    """A Hugging Face folder in, run folder out."""

    folder: str = argument("Hugging Face folder of a BERT, RoBERTa, DistilBERT, GPT-2, Llama …")
    out: str = option("run folder to write", short="-o", recorded=False)


class ExportConfig(Settings):
    """A run folder in, a folder for another library out."""

    run: str = argument("run folder")
    to: ExportTarget = option(
        "hf: for transformers; onnx: for onnxruntime; ctranslate2: to translate or generate", "hf"
    )
    precision: ExportPrecision = option("of the weights: fp32, or int8 for a smaller file", "fp32")
    out: str = option("folder to write", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to == "hf" and self.precision != "fp32":
            raise WarmstartError(
                f"--precision {self.precision} needs --to onnx or ctranslate2; --to hf writes fp32"
            )
