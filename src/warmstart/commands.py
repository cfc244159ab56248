"""The table of commands, which `warmstart.cli`, `warmstart.api` and the package itself are made of.

A command is one line. Modules are named as text and imported when a command needs them.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warmstart.settings.base import Settings

FILES = "--train train.tsv --valid valid.tsv"
PAIRS = "--source train.en --target train.de --valid-source val.en --valid-target val.de"


def find(place: str) -> Any:
    """Return the object at `module:name` of this package."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"warmstart.{module}"), name)


@dataclass(frozen=True)
class Command:
    """One command: what it is called, what computes its result, and what prints it."""

    name: str  # may be two words, as in `look mask`
    verb: str  # `module:function` that takes settings and returns the result: the verb in Python
    printer: str  # `module:function` that calls the verb and prints: the command line
    example: str  # arguments, for the help

    @property
    def print(self) -> Callable[..., None]:
        """Return the function that takes `config`, and `as_json` where the command has --json."""
        function: Callable[..., None] = find(self.printer)
        return function

    @property
    def settings(self) -> type[Settings]:
        """Return the settings class of the command."""
        settings: type[Settings] = inspect.signature(self.print).parameters["config"].annotation
        return settings

    @property
    def has_json(self) -> bool:
        """Tell whether the command has --json."""
        return "as_json" in inspect.signature(self.print).parameters


def _core(name: str, verb: str, example: str) -> Command:
    function = verb.partition(":")[2]
    return Command(name, verb, f"cli.commands:{function}", example)


def _room(name: str, verb: str, example: str) -> Command:
    room, function = verb.split(".")[0], verb.partition(":")[2]
    return Command(name, verb, f"{room}.commands:{function}", example)


COMMANDS = {
    "Start": (
        _core("start", "recipes.advice:start", "archive.txt labels.csv"),
        _core("demo", "samples.demo:demo", "-o demo"),
        _core("samples", "recipes.prepare_files:make_samples", "-o samples --language french"),
        _core("doctor", "recipes.doctor:doctor", "--device cuda"),
        _core(
            "data",
            "recipes.prepare_files:report_data",
            "train.tsv valid.tsv --columns label,text --against runs/base",
        ),
        _core(
            "tokenizer",
            "recipes.prepare_files:make_tokenizer",
            "reviews.txt -o tokenizer --kind bpe --vocab-size 8000",
        ),
    ),
    "Train": (
        _core(
            "pretrain",
            "recipes.pretrain:pretrain",
            "reviews.txt -o runs/base --preset lab --steps 2000",
        ),
        _core("finetune", "recipes.finetune:finetune", f"--from runs/base {FILES} -o runs/warm"),
        _room(
            "compare",
            "comparison.compare:compare",
            f"--from runs/base {FILES} --labels 100,400,all -o comparison",
        ),
        _core("train-translator", "recipes.train_translator:train_translator", f"{PAIRS} -o en-de"),
        _room("verify-resume", "verify.resume:verify_resume", "runs/base/config.json --kills 20"),
    ),
    "Use": (
        _core("predict", "recipes.use:predict", "runs/warm reviews.csv -o labelled.csv"),
        _room(
            "suggest",
            "labelling.suggest:suggest",
            "runs/warm comments.csv --num 50 --labelled labels.csv -o to-label.csv",
        ),
        _core("fill-mask", "recipes.use:fill_mask", 'runs/base --text "A [MASK] book."'),
        _core(
            "generate",
            "recipes.use:generate",
            'runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9',
        ),
        _core("evaluate", "recipes.evaluate:evaluate", "runs/warm --test test.tsv"),
        _core(
            "translate",
            "recipes.use:translate",
            "runs/en-de sentences.txt --beam 5 -o translations.txt",
        ),
        _core("embed", "recipes.embed:embed", "runs/base texts.txt --pooling mean -o vectors.npy"),
        _room("serve", "serving.serve:serve", "runs/warm fr=runs/en-fr --port 8000"),
    ),
    "Look inside": (
        _room("params", "planning.params:count_parameters", "lab --head classifier --labels 2"),
        _room(
            "plan pretrain",
            "planning.plan:plan_pretrain",
            "reviews.txt --preset modern-small --on rtx-4090",
        ),
        _room(
            "plan finetune",
            "planning.plan:plan_finetune",
            "--from runs/base --train train.tsv --on rtx-4090",
        ),
        _room(
            "plan compare",
            "planning.comparison:plan_compare",
            f"--from runs/base {FILES} --labels 100,400,all --on rtx-4090",
        ),
        _room(
            "plan train-translator",
            "planning.plan:plan_train_translator",
            "--preset vaswani-base --batch-tokens 50000 --on rtx-4090",
        ),
        _room(
            "look attention",
            "look.attention:look_attention",
            'runs/warm --text "Un livre merveilleux." -o attention.html',
        ),
        _room(
            "look beam",
            "look.beam:look_beam",
            'runs/en-fr --source "A fine book." --beam 3 -o beam.png',
        ),
        _room("look block", "look.block:look_block", "lab -o block.png"),
        _room(
            "look explore",
            "look.explore:look_explore",
            'runs/warm runs/causal --text "A fine book." -o explore.html',
        ),
        _room(
            "look mask",
            "look.mask:look_mask",
            'lab --text "un livre" --text "un très bon livre" -o mask.png',
        ),
        _room(
            "look neurons",
            "look.neurons:look_neurons",
            'runs/base --text "A fine book." -o neurons.png',
        ),
        _room(
            "look training",
            "look.training:look_training",
            'runs/base --text "A fine [MASK]." -o training.png',
        ),
        _room(
            "look transfer",
            "look.transfer:look_transfer",
            "lab --labels 2 --frozen -o transfer.png",
        ),
        _room(
            "look positions",
            "look.positions:look_positions",
            "runs/causal --test novels.txt -o positions.png",
        ),
        _room(
            "look word",
            "look.word:look_word",
            "runs/base bank sentences.txt -o bank.png",
        ),
        _room(
            "look ablations",
            "look.ablations:look_ablations",
            "--parts mask --steps 60 -o ablations.png",
        ),
        _room(
            "look complexity",
            "look.complexity:look_complexity",
            "--lengths 256,1024,4096 --widths 64 -o growth.png",
        ),
    ),
    "Exchange": (
        _room(
            "import",
            "interop.exchange:import_model",
            "hf:google-bert/bert-base-uncased -o runs/bert",
        ),
        _room("export", "interop.exchange:export_model", "runs/warm --to hf -o exported"),
    ),
}

VERBS = {
    command.verb.partition(":")[2]: command for group in COMMANDS.values() for command in group
}
TYPES = {  # what a program needs besides the verbs
    "FilledText": "tasks.text_model:FilledText",
    "FinetuningTask": "tasks.finetuning:FinetuningTask",
    "Prediction": "tasks.text_model:Prediction",
    "PretrainingTask": "tasks.task:PretrainingTask",
    "Task": "tasks.task:Task",
    "TextModel": "tasks.text_model:TextModel",
    "load": "tasks.registry:load",
    "plan": "planning.plan:plan",
    "register": "tasks.registry:register",
}
