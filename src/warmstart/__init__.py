"""Pretrain a small Transformer on your own text, warm-start it on few labels, measure the gain.

    import warmstart

    warmstart.pretrain(files=["reviews.txt"], out="runs/base", preset="tiny", steps=500)
    warmstart.finetune(from_run="runs/base", train="train.tsv", valid="valid.tsv", out="runs/warm")
    warmstart.load("runs/warm").predict(["A fine book."])

Every verb takes the settings of its command as keywords; `help(warmstart.pretrain)` lists them.
"""

from typing import TYPE_CHECKING, Any

from warmstart.errors import WarmstartError

if TYPE_CHECKING:
    __version__: str
    from warmstart.api import (
        Prediction,
        Predictor,
        compare,
        count_parameters,
        demo,
        embed,
        evaluate,
        export_model,
        finetune,
        generate,
        import_model,
        load,
        load_translator,
        look_attention,
        look_complexity,
        look_mask,
        look_positions,
        make_tokenizer,
        plan,
        predict,
        pretrain,
        report_data,
        train_translator,
        translate,
        verify_resume,
    )

__all__ = [
    "Prediction",
    "Predictor",
    "WarmstartError",
    "__version__",
    "compare",
    "count_parameters",
    "demo",
    "embed",
    "evaluate",
    "export_model",
    "finetune",
    "generate",
    "import_model",
    "load",
    "load_translator",
    "look_attention",
    "look_complexity",
    "look_mask",
    "look_positions",
    "make_tokenizer",
    "plan",
    "predict",
    "pretrain",
    "report_data",
    "train_translator",
    "translate",
    "verify_resume",
]


def __getattr__(name: str) -> Any:
    """Load the verbs when first used: importing the package alone stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'warmstart' has no attribute {name!r}")
    if name == "__version__":
        from warmstart.version import package_version

        return package_version()
    from warmstart import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
