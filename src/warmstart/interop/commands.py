"""The settings and commands of `import` and `export`."""

from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.printing import quote, say, say_next
from warmstart.settings.base import Settings, argument, option

ExportTarget = Literal["hf", "onnx", "ctranslate2"]
ExportPrecision = Literal["fp32", "int8"]


class ImportConfig(Settings):
    """A Hugging Face model in, run folder out."""

    folder: str = argument(
        "Hugging Face folder of a BERT, RoBERTa, DistilBERT, GPT-2, Llama …, or hf:OWNER/NAME"
    )
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


def import_model(config: ImportConfig) -> None:
    from warmstart.interop.exchange import import_model as run

    result = run(config)
    say(f"{result.architecture}: {result.kind}, {result.parameters:,} parameters")
    if result.left_out:
        say(f"not imported, because {result.kind} does not use it: {', '.join(result.left_out)}")
    files = "--train train.tsv --valid valid.tsv"
    say_next(result.run, f"compare --from {quote(result.run)} {files} -o comparison")


def export_model(config: ExportConfig) -> None:
    from warmstart.interop.exchange import export_model as run

    result = run(config)
    say(f"{result.architecture}, {result.num_parameters:,} parameters")
    if result.check:
        say(f"checked with {result.check.summary}")
    else:
        say("not checked: transformers is not installed; pip install transformers")
    again = f"import {quote(result.folder)} -o runs/again" if config.to == "hf" else None
    say_next(result.folder, again)
