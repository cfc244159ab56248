"""The table of commands, which `warmstart.cli`, `warmstart.api` and the package itself are made of.

A command is one entry. Modules are named as text and imported when a command needs them.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    help: str  # one sentence
    example: str  # arguments, for the help

    @property
    def print(self) -> Callable[..., None]:
        """Return the function that takes `config`, and `as_json` where the command has --json."""
        function: Callable[..., None] = find(self.printer)
        return function

    @property
    def settings(self) -> "type[Settings]":
        """Return the settings class of the command."""
        settings: type[Settings] = inspect.signature(self.print).parameters["config"].annotation
        return settings

    @property
    def has_json(self) -> bool:
        """Tell whether the command has --json."""
        return "as_json" in inspect.signature(self.print).parameters


def _core(name: str, verb: str, help: str, example: str) -> Command:
    function = verb.partition(":")[2]
    return Command(name, verb, f"cli.commands:{function}", help, example)


def _room(name: str, verb: str, help: str, example: str) -> Command:
    room, function = verb.split(".")[0], verb.partition(":")[2]
    return Command(name, verb, f"{room}.commands:{function}", help, example)


COMMANDS = {
    "Start": (
        _core(
            "start",
            "recipes.advice:start",
            "Read what there is and say what to run, with the times.",
            "archive.txt labels.csv",
        ),
        _core(
            "demo",
            "samples.demo:demo",
            "Run every step on built-in data and write one report.",
            "-o demo",
        ),
        _core(
            "samples",
            "recipes.prepare_files:make_samples",
            "Write the built-in texts as files: reviews, labels, ratings, sentence pairs.",
            "-o samples --language french",
        ),
        _core(
            "doctor",
            "recipes.doctor:doctor",
            "Check the installation and the machine, and prove with a short training that they "
            "work.",
            "--device cuda",
        ),
        _core(
            "data",
            "recipes.prepare_files:report_data",
            "Report on files before training: lengths, labels, repeats, shared texts.",
            "train.tsv valid.tsv --columns label,text --against runs/base",
        ),
        _core(
            "tokenizer",
            "recipes.prepare_files:make_tokenizer",
            "Train a tokenizer on a sample of text.",
            "reviews.txt -o tokenizer --kind bpe --vocab-size 8000",
        ),
    ),
    "Train": (
        _core(
            "pretrain",
            "recipes.pretrain:pretrain",
            "Pretrain a backbone on text.",
            "reviews.txt -o runs/base --preset lab --steps 2000",
        ),
        _core(
            "finetune",
            "recipes.finetune:finetune",
            "Train a classifier: a warm start with --from, else a cold start.",
            f"--from runs/base {FILES} -o runs/warm",
        ),
        _room(
            "compare",
            "comparison.compare:compare",
            "Compare warm, frozen and cold starts, LSA and TF-IDF over label subsets and seeds.",
            f"--from runs/base {FILES} --labels 100,400,all -o comparison",
        ),
        _core(
            "train-translator",
            "recipes.train_translator:train_translator",
            "Train an encoder-decoder on sentence pairs.",
            f"{PAIRS} -o en-de",
        ),
        _room(
            "verify-resume",
            "verify.resume:verify_resume",
            "Kill and resume a short run at random moments; check that the weights are equal.",
            "runs/base/config.json --kills 20",
        ),
    ),
    "Use": (
        _core(
            "predict",
            "recipes.use:predict",
            "Label texts: one row in, one row out.",
            "runs/warm reviews.csv --explain -o labelled.csv",
        ),
        _room(
            "suggest",
            "labelling.suggest:suggest",
            "Choose which texts to label next: what the run is unsure of, spread over all texts.",
            "runs/warm comments.csv --num 50 --labelled labels.csv -o to-label.csv",
        ),
        _room(
            "review",
            "labelling.review:review",
            "List labels that look wrong: models that did not see them contradict them.",
            "--from runs/base --train labels.csv -o suspects.csv",
        ),
        _core(
            "fill-mask",
            "recipes.use:fill_mask",
            "Restore masked words: the most probable ones, for each [MASK] in a text.",
            'runs/base --text "A [MASK] book."',
        ),
        _core(
            "generate",
            "recipes.use:generate",
            "Generate text with a causal language model.",
            'runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9',
        ),
        _core(
            "evaluate",
            "recipes.evaluate:evaluate",
            "Score a run on held-out data, and record the score in the run.",
            "runs/warm --test test.tsv",
        ),
        _core(
            "translate",
            "recipes.use:translate",
            "Translate sentences: one line in, one line out.",
            "runs/en-de sentences.txt --beam 5 -o translations.txt",
        ),
        _core(
            "embed",
            "recipes.embed:embed",
            "Turn texts into vectors.",
            "runs/base texts.txt --pooling mean -o vectors.npy",
        ),
        _room(
            "serve",
            "serving.serve:serve",
            "Serve runs over HTTP, with a page to try them.",
            "runs/warm fr=runs/en-fr --port 8000",
        ),
    ),
    "Look inside": (
        _room(
            "params",
            "planning.params:count_parameters",
            "Count the parameters of every layer, with formulas.",
            "lab --head classifier --labels 2",
        ),
        _room(
            "plan pretrain",
            "planning.plan:plan_pretrain",
            "Estimate FLOPs, memory and time of a pretraining, and whether it fits.",
            "reviews.txt --preset modern-small --on rtx-4090",
        ),
        _room(
            "plan finetune",
            "planning.plan:plan_finetune",
            "Estimate FLOPs, memory and time of a fine-tuning, and whether it fits.",
            "--from runs/base --train train.tsv --on rtx-4090",
        ),
        _room(
            "plan compare",
            "planning.comparison:plan_compare",
            "Estimate models, memory and time of a comparison, and whether it fits.",
            f"--from runs/base {FILES} --labels 100,400,all --on rtx-4090",
        ),
        _room(
            "plan train-translator",
            "planning.plan:plan_train_translator",
            "Estimate FLOPs, memory and time of training a translator, and whether it fits.",
            "--preset vaswani-base --batch-tokens 50000 --on rtx-4090",
        ),
        _room(
            "look attention",
            "look.attention:look_attention",
            "Show the attention weights of a text in every layer and head.",
            'runs/warm --text "Un livre merveilleux." -o attention.html',
        ),
        _room(
            "look beam",
            "look.beam:look_beam",
            "Show a beam search step by step, with the paths that were dropped.",
            'runs/en-fr --source "A fine book." --beam 3 -o beam.png',
        ),
        _room(
            "look block",
            "look.block:look_block",
            "Show the parts of a block, of an encoder and of a decoder, with shapes and counts.",
            "lab -o block.png",
        ),
        _room(
            "look explore",
            "look.explore:look_explore",
            "Write a page that computes a small model in the browser, with parts to switch off.",
            'runs/warm runs/causal --text "A fine book." -o explore.html',
        ),
        _room(
            "look mask",
            "look.mask:look_mask",
            "Show the attention masks of a batch: causal, padding, document and cross.",
            'lab --text "un livre" --text "un très bon livre" -o mask.png',
        ),
        _room(
            "look neurons",
            "look.neurons:look_neurons",
            "Show the query-key products of one head, neuron by neuron.",
            'runs/base --text "A fine book." -o neurons.png',
        ),
        _room(
            "look training",
            "look.training:look_training",
            "Show what a language model predicts before, during and after its training.",
            'runs/base --text "A fine [MASK]." -o training.png',
        ),
        _room(
            "look transfer",
            "look.transfer:look_transfer",
            "Show what replacing the head keeps, throws away and adds, with shapes and counts.",
            "lab --labels 2 --frozen -o transfer.png",
        ),
        _room(
            "look positions",
            "look.positions:look_positions",
            "Show the position encoding, and for a run perplexity by position.",
            "runs/causal --test novels.txt -o positions.png",
        ),
        _room(
            "look word",
            "look.word:look_word",
            "Show how similar one word's vectors are between sentences, layer by layer.",
            "runs/base bank sentences.txt -o bank.png",
        ),
        _room(
            "look ablations",
            "look.ablations:look_ablations",
            "Train small models without one of their parts, and show what each part is for.",
            "--parts mask --steps 60 -o ablations.png",
        ),
        _room(
            "look complexity",
            "look.complexity:look_complexity",
            "Measure how the cost of self-attention, recurrence and convolution grows.",
            "--lengths 256,1024,4096 --widths 64 -o growth.png",
        ),
    ),
    "Exchange": (
        _room(
            "import",
            "interop.exchange:import_model",
            "Turn a Hugging Face folder into a run for every other command.",
            "hf:google-bert/bert-base-uncased -o runs/bert",
        ),
        _room(
            "export",
            "interop.exchange:export_model",
            "Write a run for another library and check that its outputs agree.",
            "runs/warm --to hf -o exported",
        ),
    ),
}

VERBS = {
    command.verb.partition(":")[2]: command for group in COMMANDS.values() for command in group
}
TYPES = {  # what a program needs besides the verbs
    "Classifier": "estimator:Classifier",
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
