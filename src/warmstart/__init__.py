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
        evaluate,
        finetune,
        load,
        make_tokenizer,
        pretrain,
        report_data,
    )

__all__ = [
    "Prediction",
    "Predictor",
    "WarmstartError",
    "__version__",
    "compare",
    "count_parameters",
    "demo",
    "evaluate",
    "finetune",
    "load",
    "make_tokenizer",
    "pretrain",
    "report_data",
]


def __getattr__(name: str) -> Any:
    """Load the verbs when first used: importing the package alone stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'warmstart' has no attribute {name!r}")
    if name == "__version__":
        from warmstart.recipes.runs import package_version

        return package_version()
    from warmstart import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
