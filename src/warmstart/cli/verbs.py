"""One function a command: call the recipe, print what it says and what to run next.

Recipes are imported inside, so that help appears at once.
"""

import json
import sys
from dataclasses import asdict

import typer

from warmstart.cli import embedding, exchange, looking, planning, resuming, translation
from warmstart.cli.options import Command, add_command
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
from warmstart.report.formats import counted, duration
from warmstart.settings import training as jobs
from warmstart.settings import using


def demo(config: jobs.DemoConfig) -> None:
    """Run the whole story on built-in data and write one report."""
    from warmstart.recipes.demo import demo as run

    result = run(config)
    print_comparison(result.comparison.comparison, result.comparison.summary)
    say_next(f"{result.report}: open it in a browser", "pretrain your-text.txt -o runs/base")


def data(config: jobs.DataConfig, as_json: bool) -> None:
    """Report on files before training: lengths, labels, repeats, texts shared between them."""
    from warmstart.recipes.data import report_data

    report = report_data(config)
    if as_json:
        print_json(asdict(report))
    else:
        print_data(report)


def tokenizer(config: jobs.TokenizerConfig) -> None:
    """Train a tokenizer on a bounded sample of text."""
    from warmstart.recipes.tokenizer import make_tokenizer

    result = make_tokenizer(config)
    say(f"{result.vocab_size:,} entries; for example {' '.join(result.examples)}")
    files, folder = " ".join(map(quoted, config.files)), quoted(result.folder)
    say_next(result.folder, f"pretrain {files} --tokenizer {folder} -o runs/base")


def pretrain(config: jobs.PretrainConfig) -> None:
    """Pretrain a base on text."""
    from warmstart.recipes.pretrain import pretrain as run

    result = run(config)
    if config.objective == "causal":
        bits = f"{result.bits_per_byte:.3f} bits per byte"
        figures = f"validation perplexity {result.perplexity:.2f}, {bits}"
    else:
        valid = result.valid
        figures = f"validation: {valid['mlm_accuracy']:.1%} of masked tokens restored"
        figures += f", pseudo-perplexity {valid['pseudo_perplexity']:.2f}"
        if "nsp_accuracy" in valid:
            figures += f"; next sentence judged right in {valid['nsp_accuracy']:.1%}"
    say(f"{figures}, after {result.tokens:,} tokens in {duration(result.elapsed_s)}")
    files = "--train train.tsv --valid valid.tsv"
    say_next(result.run, f"compare --from {quoted(result.run)} {files} -o comparison")


def finetune(config: jobs.FinetuneConfig) -> None:
    """Train a classifier: warm with --from, frozen with --from and --frozen, else cold."""
    from warmstart.recipes.finetune import finetune as run

    result = run(config)
    say(
        f"validation accuracy {result.accuracy:.1%}, F1 {result.f1:.3f} "
        f"at epoch {result.best_epoch}, in {duration(result.elapsed_s)}"
    )
    say_next(result.run, f"predict {quoted(result.run)} texts.txt")


def compare(config: jobs.CompareConfig) -> None:
    """Compare warm, frozen and cold starts with TF-IDF, over label subsets and seeds."""
    from warmstart.recipes.compare import compare as run

    result = run(config)
    print_comparison(result.comparison, result.summary)
    start = f"finetune --from {quoted(result.best_start)} {_labelled(config)}"
    say_next(f"{result.report}: open it in a browser", f"{start} -o runs/classifier")


def _labelled(config: jobs.LabelledFiles) -> str:
    """Return the flags that name the same labelled texts again."""
    flags = {
        "--train": config.train,
        "--train-labels": config.train_labels,
        "--valid": config.valid,
        "--valid-labels": config.valid_labels,
        "--columns": ",".join(config.columns),
    }
    given = [f"{flag} {quoted(value)}" for flag, value in flags.items() if value]
    return " ".join([*given, *(["--pieces"] if config.pieces else [])])


def predict(config: using.PredictConfig, as_json: bool) -> None:
    """Label texts: a line in, a line out."""
    from warmstart.recipes.predict import predict_file

    refuse_same(config.file, config.out)
    predictions = predict_file(config, sys.stdin.buffer)
    lines = (
        json.dumps(asdict(found), ensure_ascii=False) if as_json else found.label
        for found in predictions
    )
    write_lines(lines, config.out)


def generate(config: using.GenerateConfig, as_json: bool) -> None:
    """Write text with a causal language model."""
    from warmstart.recipes.predict import generate_texts

    texts = generate_texts(config)
    lines = (json.dumps({"text": t}, ensure_ascii=False) if as_json else t for t in texts)
    write_lines(lines, config.out)


def evaluate(config: using.EvaluateConfig, as_json: bool) -> None:
    """Score a run on held-back data; every evaluation is entered in the run's ledger."""
    from warmstart.recipes.evaluate import evaluate as run

    result = run(config)
    if as_json:
        print_json({"run": str(result.run), "file": result.file, **result.scores})
        return
    print_scores(result.scores)
    times = counted(result.times_scored, "time")
    say(f"entered in {result.run}/scores.json: this run was scored {times} on this file")


def params(config: jobs.ParamsConfig, as_json: bool) -> None:
    """Count parameters layer by layer, each with its formula and its number."""
    from warmstart.recipes.params import count_parameters

    found = count_parameters(config)
    if as_json:
        print_json(asdict(found))
    else:
        print_parameters(found)


COMMANDS = (
    Command("demo", jobs.DemoConfig, demo, "warmstart demo -o demo", has_json=False),
    Command(
        "data",
        jobs.DataConfig,
        data,
        "warmstart data train.tsv valid.tsv --columns label,text --against runs/base",
        has_json=True,
    ),
    Command(
        "tokenizer",
        jobs.TokenizerConfig,
        tokenizer,
        "warmstart tokenizer reviews.txt -o tokenizer --kind bpe --vocab-size 8000",
        has_json=False,
    ),
    Command(
        "pretrain",
        jobs.PretrainConfig,
        pretrain,
        "warmstart pretrain reviews.txt -o runs/base --preset lab --steps 2000",
        has_json=False,
    ),
    Command(
        "finetune",
        jobs.FinetuneConfig,
        finetune,
        "warmstart finetune --from runs/base --train train.tsv --valid valid.tsv -o runs/warm",
        has_json=False,
    ),
    Command(
        "compare",
        jobs.CompareConfig,
        compare,
        "warmstart compare --from runs/base --train train.tsv --valid valid.tsv "
        "--labels 100,400,all -o comparison",
        has_json=False,
    ),
    Command(
        "predict",
        using.PredictConfig,
        predict,
        "warmstart predict runs/warm texts.txt -o labels.txt",
        has_json=True,
    ),
    Command(
        "generate",
        using.GenerateConfig,
        generate,
        'warmstart generate runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9',
        has_json=True,
    ),
    Command(
        "evaluate",
        using.EvaluateConfig,
        evaluate,
        "warmstart evaluate runs/warm --test test.tsv",
        has_json=True,
    ),
    Command(
        "params",
        jobs.ParamsConfig,
        params,
        "warmstart params lab --head classifier --labels 2 --frozen",
        has_json=True,
    ),
    *looking.COMMANDS,
    *resuming.COMMANDS,
    *exchange.COMMANDS,
    *embedding.COMMANDS,
    *translation.COMMANDS,
    *planning.COMMANDS,
)


GROUPS = {"look": "See inside: attention, masks, positions, growth with length."}


def add_all(app: typer.Typer) -> None:
    """Add every command, those of a group under its name."""
    groups: dict[str, typer.Typer] = {}
    for command in COMMANDS:
        group = command.name.rpartition(" ")[0]
        if group and group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group], no_args_is_help=True)
            app.add_typer(groups[group], name=group)
        add_command(groups[group] if group else app, command)
