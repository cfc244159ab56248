"""The verbs of the product as Python functions.

Each takes the settings of its command as keywords, checked and typed by the same dataclass.
"""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from warmstart.config import jobs
from warmstart.predictor import Prediction, Predictor, load
from warmstart.recipes import compare as _compare
from warmstart.recipes import data as _data
from warmstart.recipes import demo as _demo
from warmstart.recipes import evaluate as _evaluate
from warmstart.recipes import finetune as _finetune
from warmstart.recipes import params as _params
from warmstart.recipes import pretrain as _pretrain
from warmstart.recipes import tokenizer as _tokenizer

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def _verb(settings: Callable[P, C], recipe: Callable[[C], R]) -> Callable[P, R]:
    """Return the recipe with its settings as keywords."""

    def verb(*args: P.args, **keywords: P.kwargs) -> R:
        return recipe(settings(*args, **keywords))

    verb.__name__ = verb.__qualname__ = recipe.__name__
    verb.__doc__ = recipe.__doc__
    verb.__signature__ = inspect.signature(settings)  # type: ignore[attr-defined]
    return verb


pretrain = _verb(jobs.PretrainConfig, _pretrain.pretrain)
finetune = _verb(jobs.FinetuneConfig, _finetune.finetune)
compare = _verb(jobs.CompareConfig, _compare.compare)
evaluate = _verb(jobs.EvaluateConfig, _evaluate.evaluate)
demo = _verb(jobs.DemoConfig, _demo.demo)
make_tokenizer = _verb(jobs.TokenizerConfig, _tokenizer.make_tokenizer)
report_data = _verb(jobs.DataConfig, _data.report_data)
count_parameters = _verb(jobs.ParamsConfig, _params.count_parameters)

__all__ = [
    "Prediction",
    "Predictor",
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
