"""One function a command: call the recipe, print what it says and what to run next.

Recipes are imported inside, so that help appears at once.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from warmstart.cli.options import add_command
from warmstart.config import jobs
from warmstart.errors import WarmstartError


def add_all(app: typer.Typer) -> None:
    """Add every command."""
    add_command(app, "demo", jobs.DemoConfig, demo, "warmstart demo -o demo")
    add_command(
        app,
        "data",
        jobs.DataConfig,
        data,
        "warmstart data train.tsv valid.tsv --columns label,text --against runs/base",
        has_json=True,
    )
    add_command(
        app,
        "tokenizer",
        jobs.TokenizerConfig,
        tokenizer,
        "warmstart tokenizer reviews.txt -o tokenizer --kind bpe --vocab-size 8000",
    )
    add_command(
        app,
        "pretrain",
        jobs.PretrainConfig,
        pretrain,
        "warmstart pretrain reviews.txt -o runs/base --preset lab --steps 2000",
    )
    add_command(
        app,
        "finetune",
        jobs.FinetuneConfig,
        finetune,
        "warmstart finetune --from runs/base --train train.tsv --valid valid.tsv -o runs/warm",
    )
    add_command(
        app,
        "compare",
        jobs.CompareConfig,
        compare,
        "warmstart compare --from runs/base --train train.tsv --valid valid.tsv "
        "--labels 100,400,all -o comparison",
    )
    add_command(
        app,
        "predict",
        jobs.PredictConfig,
        predict,
        "warmstart predict runs/warm texts.txt -o labels.txt",
        has_json=True,
    )
    add_command(
        app,
        "generate",
        jobs.GenerateConfig,
        generate,
        'warmstart generate runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9',
        has_json=True,
    )
    add_command(
        app,
        "evaluate",
        jobs.EvaluateConfig,
        evaluate,
        "warmstart evaluate runs/warm --test test.tsv",
        has_json=True,
    )
    add_command(
        app,
        "params",
        jobs.ParamsConfig,
        params,
        "warmstart params lab --head classifier --labels 2 --frozen",
        has_json=True,
    )


def demo(config: jobs.DemoConfig) -> None:
    """Run the whole story on built-in data and write one report."""
    from warmstart.recipes.demo import demo as run

    result = run(config)
    _comparison_table(result.comparison.comparison, result.comparison.summary)
    _next(f"wrote {result.report}: open it in a browser")


def data(config: jobs.DataConfig, as_json: bool) -> None:
    """Report on files before training: lengths, labels, repeats, texts shared between them."""
    from warmstart.recipes.data import report_data

    report = report_data(config)
    if as_json:
        _print_json(asdict(report))
        return
    table = _table(
        "file", "rows", "empty", "repeats", "shortest", "median", "95%", "longest", "cut"
    )
    table.title = f"lengths in {report.files[0].unit}"
    for file in report.files:
        cells = (file.rows, file.skipped, file.repeats, file.shortest, file.median, file.long)
        cut = "" if file.truncated is None else f"{file.truncated:,}"
        table.add_row(file.file, *(f"{c:,.0f}" for c in cells), f"{file.longest:,}", cut)
    _console().print(table)
    for file in report.files:
        if file.unknown is not None:
            _say(f"{file.file}: {file.unknown:.2%} of the tokens are unknown")
        if file.labels:
            shares = (f"{k} {v:,} ({v / file.rows:.0%})" for k, v in file.labels.items())
            _say(f"{file.file}: labels {', '.join(shares)}")
    for shared in report.shared:
        _say(
            f"{shared.a} and {shared.b} share {shared.distinct:,} texts "
            f"({shared.rows:,} rows of the second)"
        )
    for seen in report.against:
        _say(f"{seen.file}: {seen.rows:,} rows were already seen in the training of {report.run}")


def tokenizer(config: jobs.TokenizerConfig) -> None:
    """Train a tokenizer on a bounded sample of text."""
    from warmstart.recipes.tokenizer import make_tokenizer

    result = make_tokenizer(config)
    _say(f"{result.vocab_size:,} entries; for example {' '.join(result.examples)}")
    _next(
        f"wrote {result.folder}: warmstart pretrain FILES --tokenizer {result.folder} -o runs/base"
    )


def pretrain(config: jobs.PretrainConfig) -> None:
    """Pretrain a base on text."""
    from warmstart.recipes.pretrain import pretrain as run

    result = run(config)
    _say(
        f"validation perplexity {result.perplexity:.2f}, {result.bits_per_byte:.3f} bits per byte, "
        f"after {result.tokens:,} tokens in {result.elapsed_s:,.0f} s"
    )
    _next(
        f"wrote {result.run}: warmstart compare --from {result.run} "
        "--train train.tsv --valid valid.tsv -o comparison"
    )


def finetune(config: jobs.FinetuneConfig) -> None:
    """Train a classifier: warm with --from, frozen with --from and --frozen, else cold."""
    from warmstart.recipes.finetune import finetune as run

    result = run(config)
    _say(
        f"validation accuracy {result.accuracy:.1%}, F1 {result.f1:.3f} "
        f"at epoch {result.best_epoch}, in {result.elapsed_s:,.0f} s"
    )
    _next(f"wrote {result.run}: warmstart predict {result.run} texts.txt")


def compare(config: jobs.CompareConfig) -> None:
    """Compare warm, frozen and cold starts with TF-IDF, over label subsets and seeds."""
    from warmstart.recipes.compare import compare as run

    result = run(config)
    _comparison_table(result.comparison, result.summary)
    _next(f"wrote {result.report}: open it in a browser")


def predict(config: jobs.PredictConfig, as_json: bool) -> None:
    """Label texts: a line in, a line out."""
    from warmstart.recipes.predict import predict_file

    predictions = predict_file(config, sys.stdin.buffer)
    lines = (
        json.dumps(asdict(found), ensure_ascii=False) if as_json else found.label
        for found in predictions
    )
    _write_lines(lines, config.out)


def generate(config: jobs.GenerateConfig, as_json: bool) -> None:
    """Write text with a causal language model."""
    from warmstart.recipes.predict import generate_texts

    for text in generate_texts(config):
        typer.echo(json.dumps({"text": text}, ensure_ascii=False) if as_json else text)


def evaluate(config: jobs.EvaluateConfig, as_json: bool) -> None:
    """Score a run on held-back data; every evaluation is entered in the run's ledger."""
    from warmstart.recipes.evaluate import evaluate as run

    result = run(config)
    if as_json:
        _print_json({"run": str(result.run), "file": result.file, **result.scores})
        return
    table = _table("figure", "value")
    for name, value in result.scores.items():
        if isinstance(value, (int, float)):
            table.add_row(
                name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            )
    low, high = result.scores["interval"]["low"], result.scores["interval"]["high"]
    table.add_row("95% interval", f"{low:.4f} to {high:.4f}")
    _console().print(table)
    if "confusion" in result.scores:
        _confusion(result.scores)
    _say(f"entered in {result.run}/scores.json: scored {result.times_scored} time(s) on this file")


def params(config: jobs.ParamsConfig, as_json: bool) -> None:
    """Count parameters layer by layer, each with its formula and its number."""
    from warmstart.recipes.params import count_parameters

    found = count_parameters(config)
    if as_json:
        _print_json(asdict(found))
        return
    table = _table("layer", "formula", "parameters")
    for layer in found.layers:
        table.add_row(layer.name, layer.formula, f"{layer.count:,}")
    table.add_section()
    table.add_row("total", "", f"{found.total:,}", style="bold")
    table.add_row("trainable", "", f"{found.trainable:,}", style="bold")
    _console().print(table)
    _say(found.legend)


def _comparison_table(comparison: Any, summary: Any) -> None:
    table = _table("labels", *(arm.name for arm in comparison.arms))
    table.title = f"accuracy on {summary.judge}, mean of {len(comparison.seeds)} seeds ± spread"
    for labels in comparison.subsets:
        scores = [summary.score(arm.name, labels).judged for arm in comparison.arms]
        table.add_row(f"{labels:,}", *(f"{s.accuracy:.1%} ± {s.spread:.1%}" for s in scores))
    _console().print(table)
    if comparison.attainable:
        _say(f"attainable at best: {comparison.attainable:.1%}")
    for sentence in (summary.headline, *summary.caveats):
        _say(sentence)


def _confusion(scores: dict[str, Any]) -> None:
    names = [row["name"] for row in scores["classes"]]
    table = _table("true \\ predicted", *names)
    for name, row in zip(names, scores["confusion"], strict=True):
        table.add_row(name, *(f"{count:,}" for count in row))
    _console().print(table)


def _table(first: str, *others: str) -> Table:
    table = Table(title_justify="left", header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name == "formula" else "right")
    return table


def _console() -> Console:
    return Console()


def _say(line: str) -> None:
    _console().print(line, highlight=False, markup=False, soft_wrap=True)


def _next(line: str) -> None:
    _console().print(line, highlight=False, markup=False, soft_wrap=True, style="bold green")


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))


def _write_lines(lines: Iterable[str], out: str | None) -> None:
    if out is None:
        for line in lines:
            typer.echo(line)
        return
    from warmstart.files import write_whole

    if Path(out).is_dir():
        raise WarmstartError(f"-o {out} is a folder; name a file")
    write_whole(Path(out), "".join(f"{line}\n" for line in lines).encode())
