"""The verbs of the product as Python functions.

Each takes the settings of its command as keywords, checked and typed by the same dataclass.
"""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from warmstart.predictor import Prediction, Predictor, load
from warmstart.recipes import compare as _compare
from warmstart.recipes import data as _data
from warmstart.recipes import demo as _demo
from warmstart.recipes import embed as _embed
from warmstart.recipes import evaluate as _evaluate
from warmstart.recipes import exchange as _exchange
from warmstart.recipes import finetune as _finetune
from warmstart.recipes import look as _look
from warmstart.recipes import look_mask as _look_mask
from warmstart.recipes import params as _params
from warmstart.recipes import plan as _plan
from warmstart.recipes import predict as _predict
from warmstart.recipes import pretrain as _pretrain
from warmstart.recipes import tokenizer as _tokenizer
from warmstart.recipes import train_translator as _translator
from warmstart.recipes import translate as _translate
from warmstart.recipes import verify_resume as _verify
from warmstart.settings import embedding, exchange, looking, planning, resuming, translation, using
from warmstart.settings import training as jobs

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
evaluate = _verb(using.EvaluateConfig, _evaluate.evaluate)
predict = _verb(using.PredictConfig, _predict.predict)
generate = _verb(using.GenerateConfig, _predict.generate)
demo = _verb(jobs.DemoConfig, _demo.demo)
embed = _verb(embedding.EmbedConfig, _embed.embed)
make_tokenizer = _verb(jobs.TokenizerConfig, _tokenizer.make_tokenizer)
import_model = _verb(exchange.ImportConfig, _exchange.import_model)
export_model = _verb(exchange.ExportConfig, _exchange.export_model)
report_data = _verb(jobs.DataConfig, _data.report_data)
count_parameters = _verb(jobs.ParamsConfig, _params.count_parameters)
look_attention = _verb(looking.LookAttentionConfig, _look.look_attention)
look_complexity = _verb(looking.LookComplexityConfig, _look.look_complexity)
look_mask = _verb(looking.LookMaskConfig, _look_mask.look_mask)
look_positions = _verb(looking.LookPositionsConfig, _look.look_positions)
plan = _verb(planning.PlanConfig, _plan.plan)
train_translator = _verb(translation.TrainTranslatorConfig, _translator.train_translator)
translate = _verb(translation.TranslateConfig, _translate.translate)
load_translator = _verb(translation.TranslateConfig, _translate.load_translator)
verify_resume = _verb(resuming.VerifyResumeConfig, _verify.verify_resume)

__all__ = [
    "Prediction",
    "Predictor",
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
