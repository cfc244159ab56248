"""The verbs of the product as Python functions.

Each takes the settings of its command as keywords, checked and typed by the same dataclass.
"""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from warmstart.display import shown_in_notebooks
from warmstart.errors import WarmstartError
from warmstart.inference.text_model import TextModel as TextModel
from warmstart.loading import load as load
from warmstart.recipes import compare as _compare
from warmstart.recipes import data as _data
from warmstart.recipes import demo as _demo
from warmstart.recipes import doctor as _doctor
from warmstart.recipes import embed as _embed
from warmstart.recipes import evaluate as _evaluate
from warmstart.recipes import export_model as _export_model
from warmstart.recipes import fill_mask as _fill_mask
from warmstart.recipes import finetune as _finetune
from warmstart.recipes import generate as _generate
from warmstart.recipes import import_model as _import_model
from warmstart.recipes import look_ablations as _look_ablations
from warmstart.recipes import look_attention as _look_attention
from warmstart.recipes import look_beam as _look_beam
from warmstart.recipes import look_complexity as _look_complexity
from warmstart.recipes import look_mask as _look_mask
from warmstart.recipes import look_neurons as _look_neurons
from warmstart.recipes import look_positions as _look_positions
from warmstart.recipes import look_training as _look_training
from warmstart.recipes import look_transfer as _look_transfer
from warmstart.recipes import make_tokenizer as _tokenizer
from warmstart.recipes import params as _params
from warmstart.recipes import plan as _plan
from warmstart.recipes import predict as _predict
from warmstart.recipes import pretrain as _pretrain
from warmstart.recipes import samples as _samples
from warmstart.recipes import serve as _serve
from warmstart.recipes import train_translator as _train_translator
from warmstart.recipes import translate as _translate
from warmstart.recipes import verify_resume as _verify_resume
from warmstart.results.predictions import FilledText as FilledText
from warmstart.results.predictions import Prediction as Prediction
from warmstart.settings import (
    exchanging,
    finetuning,
    looking,
    pretraining,
    serving,
    starting,
    translating,
    using,
)
from warmstart.settings.base import suggestion
from warmstart.tasks.finetuning_task import FinetuningTask as FinetuningTask
from warmstart.tasks.registry import register as register
from warmstart.tasks.task import PretrainingTask as PretrainingTask
from warmstart.tasks.task import Task as Task

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def _verb(settings: Callable[P, C], recipe: Callable[[C], R]) -> Callable[P, R]:
    """Return the recipe with its settings as keywords."""
    signature = inspect.signature(settings)

    def verb(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            if name not in signature.parameters:
                hint = suggestion(name, signature.parameters)
                raise WarmstartError(f"{recipe.__name__} has no setting '{name}'{hint}")
        with shown_in_notebooks():
            return recipe(settings(*args, **keywords))

    verb.__name__ = verb.__qualname__ = recipe.__name__
    verb.__doc__ = recipe.__doc__
    verb.__signature__ = signature  # type: ignore[attr-defined]
    return verb


compare = _verb(finetuning.CompareConfig, _compare.compare)
count_parameters = _verb(looking.ParamsConfig, _params.count_parameters)
demo = _verb(starting.DemoConfig, _demo.demo)
doctor = _verb(starting.DoctorConfig, _doctor.doctor)
embed = _verb(using.EmbedConfig, _embed.embed)
evaluate = _verb(using.EvaluateConfig, _evaluate.evaluate)
export_model = _verb(exchanging.ExportConfig, _export_model.export_model)
fill_mask = _verb(using.FillMaskConfig, _fill_mask.fill_mask)
finetune = _verb(finetuning.FinetuneConfig, _finetune.finetune)
generate = _verb(using.GenerateConfig, _generate.generate)
import_model = _verb(exchanging.ImportConfig, _import_model.import_model)
look_ablations = _verb(looking.LookAblationsConfig, _look_ablations.look_ablations)
look_attention = _verb(looking.LookAttentionConfig, _look_attention.look_attention)
look_beam = _verb(looking.LookBeamConfig, _look_beam.look_beam)
look_complexity = _verb(looking.LookComplexityConfig, _look_complexity.look_complexity)
look_mask = _verb(looking.LookMaskConfig, _look_mask.look_mask)
look_neurons = _verb(looking.LookNeuronsConfig, _look_neurons.look_neurons)
look_positions = _verb(looking.LookPositionsConfig, _look_positions.look_positions)
look_training = _verb(looking.LookTrainingConfig, _look_training.look_training)
look_transfer = _verb(looking.LookTransferConfig, _look_transfer.look_transfer)
make_samples = _verb(starting.SamplesConfig, _samples.make_samples)
make_tokenizer = _verb(starting.TokenizerConfig, _tokenizer.make_tokenizer)
plan = _verb(looking.PlanConfig, _plan.plan)
predict = _verb(using.PredictConfig, _predict.predict)
pretrain = _verb(pretraining.PretrainConfig, _pretrain.pretrain)
report_data = _verb(starting.DataConfig, _data.report_data)
serve = _verb(serving.ServeConfig, _serve.serve)
train_translator = _verb(translating.TrainTranslatorConfig, _train_translator.train_translator)
translate = _verb(translating.TranslateConfig, _translate.translate)
verify_resume = _verb(starting.VerifyResumeConfig, _verify_resume.verify_resume)
