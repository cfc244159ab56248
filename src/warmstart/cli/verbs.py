"""One function per command: call the recipe, print the result and the next command."""

import json
import sys
from dataclasses import asdict

import typer

from warmstart.cli import (
    embed_command,
    exchange_commands,
    look_commands,
    plan_command,
    resume_command,
    translation_commands,
)
from warmstart.cli.options import GROUPS, Command, add_command
from warmstart.cli.printing import (
    print_comparison,
    print_data,
    print_json,
    print_parameters,
    print_scores,
    quoted,
    refuse_same,
    say,
    say_next,
    write_lines,
)
from warmstart.formats import counted, duration
from warmstart.settings.finetuning import CompareConfig, FinetuneConfig
from warmstart.settings.looking import ParamsConfig
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.shared import LabelledFiles
from warmstart.settings.starting import DataConfig, DemoConfig, TokenizerConfig
from warmstart.settings.using import EvaluateConfig, GenerateConfig, PredictConfig


def demo(config: DemoConfig) -> None:
    """Run every step on built-in data and write one report."""
    from warmstart.recipes.demo import demo as run

    result = run(config)
    print_comparison(result.comparison.comparison, result.comparison.summary)
    say_next(f"{result.report}: open it in a browser", "pretrain your-text.txt -o runs/base")


def data(config: DataConfig, as_json: bool) -> None:
    """Report on files before training: lengths, labels, repeats, shared texts."""
    from warmstart.recipes.data import report_data

    report = report_data(config)
    if as_json:
        print_json(asdict(report))
    else:
        print_data(report)


def tokenizer(config: TokenizerConfig) -> None:
    """Train a tokenizer on a sample of text."""
    from warmstart.recipes.tokenizer import make_tokenizer

    result = make_tokenizer(config)
    say(f"{result.vocab_size:,} entries; for example {' '.join(result.examples)}")
    files, folder = " ".join(map(quoted, config.files)), quoted(result.folder)
    say_next(result.folder, f"pretrain {files} --tokenizer {folder} -o runs/base")


def pretrain(config: PretrainConfig) -> None:
    """Pretrain a backbone on text."""
    from warmstart.recipes.pretrain import pretrain as run

    result = run(config)
    say(f"{result.summary}, after {result.tokens:,} tokens in {duration(result.elapsed_s)}")
    files = "--train train.tsv --valid valid.tsv"
    say_next(result.run, f"compare --from {quoted(result.run)} {files} -o comparison")


def finetune(config: FinetuneConfig) -> None:
    """Train a classifier: a warm start with --from, else a cold start."""
    from warmstart.recipes.finetune import finetune as run

    result = run(config)
    elapsed = duration(result.elapsed_s)
    say(f"validation {result.summary} at epoch {result.best_epoch}, in {elapsed}")
    say_next(result.run, f"predict {quoted(result.run)} texts.txt")


def compare(config: CompareConfig) -> None:
    """Compare warm, frozen and cold starts and TF-IDF over label subsets and seeds."""
    from warmstart.recipes.compare import compare as run

    result = run(config)
    print_comparison(result.comparison, result.summary)
    start = f"finetune --from {quoted(result.best_start)} {_labelled(config)}"
    say_next(f"{result.report}: open it in a browser", f"{start} -o runs/classifier")


def _labelled(config: LabelledFiles) -> str:
    """Return the flags that name the same labelled texts."""
    flags = {
        "--train": config.train,
        "--train-labels": config.train_labels,
        "--valid": config.valid,
        "--valid-labels": config.valid_labels,
        "--columns": ",".join(config.columns),
    }
    given = [f"{flag} {quoted(value)}" for flag, value in flags.items() if value]
    return " ".join([*given, *(["--pieces"] if config.pieces else [])])


def predict(config: PredictConfig, as_json: bool) -> None:
    """Label texts: one line in, one line out."""
    from warmstart.recipes.predict import predict_file

    refuse_same(config.file, config.out)
    predictions = predict_file(config, sys.stdin.buffer)
    lines = (
        json.dumps(asdict(prediction), ensure_ascii=False) if as_json else prediction.label
        for prediction in predictions
    )
    write_lines(lines, config.out)


def generate(config: GenerateConfig, as_json: bool) -> None:
    """Generate text with a causal language model."""
    from warmstart.recipes.generate import generate_texts

    texts = generate_texts(config)
    lines = (json.dumps({"text": t}, ensure_ascii=False) if as_json else t for t in texts)
    write_lines(lines, config.out)


def evaluate(config: EvaluateConfig, as_json: bool) -> None:
    """Score a run on held-out data, and record the score in the run."""
    from warmstart.recipes.evaluate import evaluate as run

    result = run(config)
    if as_json:
        print_json({"run": str(result.run), "file": result.file, **result.scores})
        return
    print_scores(result.scores)
    times = counted(result.times_scored, "time")
    say(f"recorded in {result.run}/scores.json: this run was scored {times} on this file")


def params(config: ParamsConfig, as_json: bool) -> None:
    """Count the parameters of every layer, with formulas."""
    from warmstart.recipes.params import count_parameters

    count = count_parameters(config)
    if as_json:
        print_json(asdict(count))
    else:
        print_parameters(count)


COMMANDS = (
    Command("demo", "Start", demo, "-o demo"),
    Command("data", "Start", data, "train.tsv valid.tsv --columns label,text --against runs/base"),
    Command(
        "tokenizer", "Start", tokenizer, "reviews.txt -o tokenizer --kind bpe --vocab-size 8000"
    ),
    Command("pretrain", "Train", pretrain, "reviews.txt -o runs/base --preset lab --steps 2000"),
    Command(
        "finetune",
        "Train",
        finetune,
        "--from runs/base --train train.tsv --valid valid.tsv -o runs/warm",
    ),
    Command(
        "compare",
        "Train",
        compare,
        "--from runs/base --train train.tsv --valid valid.tsv --labels 100,400,all -o comparison",
    ),
    Command("predict", "Use", predict, "runs/warm texts.txt -o labels.txt"),
    Command(
        "generate", "Use", generate, 'runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9'
    ),
    Command("evaluate", "Use", evaluate, "runs/warm --test test.tsv"),
    Command("params", "Look inside", params, "lab --head classifier --labels 2 --frozen"),
    *translation_commands.COMMANDS,
    *resume_command.COMMANDS,
    *embed_command.COMMANDS,
    *plan_command.COMMANDS,
    *look_commands.COMMANDS,
    *exchange_commands.COMMANDS,
)
GROUP_HELP = {"look": "Show attention weights, masks, positions and growth with length."}


def add_all(app: typer.Typer) -> None:
    """Add every command in the order of the groups; `look x` as member x of `look`."""
    groups: dict[str, typer.Typer] = {}
    for command in sorted(COMMANDS, key=lambda command: GROUPS.index(command.group)):
        name = command.name.rpartition(" ")[0]
        if name and name not in groups:
            groups[name] = typer.Typer(help=GROUP_HELP[name], no_args_is_help=True)
            app.add_typer(groups[name], name=name, rich_help_panel=command.group)
        add_command(groups[name] if name else app, command)
