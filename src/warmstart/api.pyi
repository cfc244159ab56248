# Written by .ci/stub.py from the table in commands.py.

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import compare as _compare
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model as _export_model
from warmstart.interop.exchange import import_model as _import_model
from warmstart.labelling.settings import SuggestConfig
from warmstart.labelling.suggest import suggest as _suggest
from warmstart.look.ablations import look_ablations as _look_ablations
from warmstart.look.attention import look_attention as _look_attention
from warmstart.look.beam import look_beam as _look_beam
from warmstart.look.commands import (
    LookAblationsConfig,
    LookAttentionConfig,
    LookBeamConfig,
    LookComplexityConfig,
    LookMaskConfig,
    LookNeuronsConfig,
    LookPositionsConfig,
    LookTrainingConfig,
    LookTransferConfig,
    LookWordConfig,
)
from warmstart.look.complexity import look_complexity as _look_complexity
from warmstart.look.mask import look_mask as _look_mask
from warmstart.look.neurons import look_neurons as _look_neurons
from warmstart.look.positions import look_positions as _look_positions
from warmstart.look.training import look_training as _look_training
from warmstart.look.transfer import look_transfer as _look_transfer
from warmstart.look.word import look_word as _look_word
from warmstart.planning.commands import (
    ParamsConfig,
    PlanCompareConfig,
    PlanFinetuneConfig,
    PlanPretrainConfig,
    PlanTrainTranslatorConfig,
)
from warmstart.planning.comparison import plan_compare as _plan_compare
from warmstart.planning.params import count_parameters as _count_parameters
from warmstart.planning.plan import plan as plan
from warmstart.planning.plan import plan_finetune as _plan_finetune
from warmstart.planning.plan import plan_pretrain as _plan_pretrain
from warmstart.planning.plan import plan_train_translator as _plan_train_translator
from warmstart.recipes.advice import start as _start
from warmstart.recipes.doctor import doctor as _doctor
from warmstart.recipes.embed import embed as _embed
from warmstart.recipes.evaluate import evaluate as _evaluate
from warmstart.recipes.finetune import finetune as _finetune
from warmstart.recipes.prepare_files import make_samples as _make_samples
from warmstart.recipes.prepare_files import make_tokenizer as _make_tokenizer
from warmstart.recipes.prepare_files import report_data as _report_data
from warmstart.recipes.pretrain import pretrain as _pretrain
from warmstart.recipes.train_translator import train_translator as _train_translator
from warmstart.recipes.use import fill_mask as _fill_mask
from warmstart.recipes.use import generate as _generate
from warmstart.recipes.use import predict as _predict
from warmstart.recipes.use import translate as _translate
from warmstart.samples.demo import demo as _demo
from warmstart.serving.commands import ServeConfig
from warmstart.serving.serve import serve as _serve
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig
from warmstart.settings.using import (
    DataConfig,
    DemoConfig,
    DoctorConfig,
    EmbedConfig,
    EvaluateConfig,
    FillMaskConfig,
    GenerateConfig,
    PredictConfig,
    SamplesConfig,
    StartConfig,
    TokenizerConfig,
    TranslateConfig,
)
from warmstart.tasks.finetuning import FinetuningTask as FinetuningTask
from warmstart.tasks.registry import load as load
from warmstart.tasks.registry import register as register
from warmstart.tasks.task import PretrainingTask as PretrainingTask
from warmstart.tasks.task import Task as Task
from warmstart.tasks.text_model import FilledText as FilledText
from warmstart.tasks.text_model import Prediction as Prediction
from warmstart.tasks.text_model import TextModel as TextModel
from warmstart.verify.commands import VerifyResumeConfig
from warmstart.verify.resume import verify_resume as _verify_resume

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")

def verb(settings: Callable[P, C], recipe: Callable[[C], R]) -> Callable[P, R]: ...

compare = verb(CompareConfig, _compare)
count_parameters = verb(ParamsConfig, _count_parameters)
demo = verb(DemoConfig, _demo)
doctor = verb(DoctorConfig, _doctor)
embed = verb(EmbedConfig, _embed)
evaluate = verb(EvaluateConfig, _evaluate)
export_model = verb(ExportConfig, _export_model)
fill_mask = verb(FillMaskConfig, _fill_mask)
finetune = verb(FinetuneConfig, _finetune)
generate = verb(GenerateConfig, _generate)
import_model = verb(ImportConfig, _import_model)
look_ablations = verb(LookAblationsConfig, _look_ablations)
look_attention = verb(LookAttentionConfig, _look_attention)
look_beam = verb(LookBeamConfig, _look_beam)
look_complexity = verb(LookComplexityConfig, _look_complexity)
look_mask = verb(LookMaskConfig, _look_mask)
look_neurons = verb(LookNeuronsConfig, _look_neurons)
look_positions = verb(LookPositionsConfig, _look_positions)
look_training = verb(LookTrainingConfig, _look_training)
look_transfer = verb(LookTransferConfig, _look_transfer)
look_word = verb(LookWordConfig, _look_word)
make_samples = verb(SamplesConfig, _make_samples)
make_tokenizer = verb(TokenizerConfig, _make_tokenizer)
plan_compare = verb(PlanCompareConfig, _plan_compare)
plan_finetune = verb(PlanFinetuneConfig, _plan_finetune)
plan_pretrain = verb(PlanPretrainConfig, _plan_pretrain)
plan_train_translator = verb(PlanTrainTranslatorConfig, _plan_train_translator)
predict = verb(PredictConfig, _predict)
pretrain = verb(PretrainConfig, _pretrain)
report_data = verb(DataConfig, _report_data)
serve = verb(ServeConfig, _serve)
start = verb(StartConfig, _start)
suggest = verb(SuggestConfig, _suggest)
train_translator = verb(TrainTranslatorConfig, _train_translator)
translate = verb(TranslateConfig, _translate)
verify_resume = verb(VerifyResumeConfig, _verify_resume)
