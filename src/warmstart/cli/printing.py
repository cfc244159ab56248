"""Results on standard output: tables, sentences, JSON, and the next command."""

import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warmstart.errors import WarmstartError
from warmstart.files import distinct_names
from warmstart.formats import counted, percent

if TYPE_CHECKING:
    from warmstart.recipes.params import ParameterCount
    from warmstart.results.comparison import Comparison
    from warmstart.results.data import DataReport
    from warmstart.results.summary import ArmScore, Summary


def say(line: str) -> None:
    """Print one line without wrapping it."""
    Console().print(line, highlight=False, markup=False, soft_wrap=True)


def say_next(wrote: object, command: str) -> None:
    """Print what a command wrote, and which command to run next."""
    for line in (f"wrote {wrote}", f"next: warmstart {command}"):
        Console().print(line, highlight=False, markup=False, soft_wrap=True, style="bold green")


def quoted(path: object) -> str:
    """Return a path quoted for a shell."""
    return shlex.quote(str(path))


def print_json(data: Any) -> None:
    """Print plain values as JSON."""
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))


def write_lines(lines: Iterable[str], out: str | None) -> None:
    """Print lines as they arrive, or write all of them to a file at the end."""
    if out is None:
        for line in lines:
            typer.echo(line)
        return
    from warmstart.files import write_lines as write

    if Path(out).is_dir():
        raise WarmstartError(f"-o {out} is a folder; name a file")
    write(Path(out), lines)
    say(f"wrote {quoted(out)}")


def refuse_same(file: str | None, out: str | None) -> None:
    """Refuse to write over the input file."""
    if file and out and Path(file).resolve() == Path(out).resolve():
        raise WarmstartError(f"-o {out} is the input file; name another file")


def print_data(report: "DataReport") -> None:
    """Print what the files hold and which texts they share."""
    has_cut = any(file.truncated is not None for file in report.files)
    lengths = ("shortest", "median", "95%", "longest", *(["cut"] if has_cut else []))
    table = new_table("file", "rows", "empty", "repeats", *lengths)
    table.title = f"lengths in {report.files[0].unit}"
    names = distinct_names([Path(file.file) for file in report.files])
    for name, file in zip(names, report.files, strict=True):
        cells = [file.rows, file.skipped, file.repeats, file.shortest, file.median, file.long]
        cells += [file.longest, *([] if file.truncated is None else [file.truncated])]
        table.add_row(escape(name), *(f"{cell:,.0f}" for cell in cells))
    Console().print(table)
    for line in _data_lines(report):
        say(line)


def _data_lines(report: "DataReport") -> Iterator[str]:
    rows = {file.file: file.rows for file in report.files}
    for file in report.files:
        if file.unknown is not None:
            yield f"{file.file}: {file.unknown:.2%} of the tokens are unknown"
        if file.labels:
            shares = (f"{k} {v:,} ({v / file.rows:.0%})" for k, v in file.labels.items())
            yield f"{file.file}: labels {', '.join(shares)}"
    shared = [pair for pair in report.shared if pair.rows]
    for pair in shared:
        texts = counted(pair.distinct, "different text")
        yield f"{pair.rows:,} of {rows[pair.b]:,} rows in {pair.b} also occur in {pair.a} ({texts})"
    if report.shared and not shared:
        yield "no text occurs in two of these files"
    for seen in report.against:
        share = f"{seen.rows:,} of {rows[seen.file]:,} rows in {seen.file}"
        yield f"{share} occur in the training data of {report.run}"


def print_comparison(comparison: "Comparison", summary: "Summary") -> None:
    """Print the accuracy of every arm at every subset, and the verdict."""
    arms, subsets = [arm.name for arm in comparison.arms], comparison.subsets
    is_wide = len(arms) > 5  # then each arm is a row
    sizes = [counted(labels, "label") for labels in subsets]
    table = new_table("arm", *sizes) if is_wide else new_table("labels", *arms)
    num_seeds = len(comparison.seeds)
    spread = " ± spread" if num_seeds > 1 else ""
    table.title = (
        f"accuracy on {summary.scored_split}, mean of {counted(num_seeds, 'seed')}{spread}"
    )
    grid = [[_accuracy(summary.score(arm, labels)) for arm in arms] for labels in subsets]
    if is_wide:
        for name, row in zip(arms, zip(*grid, strict=True), strict=True):
            table.add_row(escape(name), *row)
    else:
        for labels, cells in zip(subsets, grid, strict=True):
            table.add_row(f"{labels:,}", *cells)
    Console().print(table)
    if comparison.attainable:
        say(f"best accuracy attainable: {percent(comparison.attainable)}")
    for sentence in (summary.headline, *summary.caveats):
        say(sentence)


def _accuracy(score: "ArmScore | None") -> str:
    if score is None:
        return "–"
    mean, spread = percent(score.scored.accuracy), percent(score.scored.spread)
    return f"{mean} ± {spread}" if score.scored.num_seeds > 1 else mean


def print_scores(scores: dict[str, Any]) -> None:
    """Print the metrics of an evaluation and the confusion matrix."""
    table = new_table("metric", "value")
    for name, value in scores.items():
        if isinstance(value, (int, float)):
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            table.add_row(name.replace("_", " "), shown)
    metric = "accuracy" if "accuracy" in scores else "perplexity"
    for name, interval in scores.get("intervals", {metric: scores.get("interval")}).items():
        shown = f"{interval['low']:.4f} to {interval['high']:.4f}"
        table.add_row(f"95% interval of {name.replace('_', ' ')}", shown)
    if "calibration" in scores:
        table.add_row("calibration error", f"{scores['calibration']['expected_error']:.4f}")
        table.add_row("Brier score", f"{scores['calibration']['brier']:.4f}")
    Console().print(table)
    for signature in scores.get("signatures", {}).values():
        say(signature)
    for test in scores.get("against", {}).get("tests", []):
        say(
            f"{test['metric']}: {test['score']:.2f} against {test['other']:.2f} of "
            f"{scores['against']['run']}, paired bootstrap p = {test['p_value']:.3f}"
        )
    if "confusion" in scores:
        names = [row["name"] for row in scores["classes"]]
        table = new_table("true \\ predicted", *names)
        for name, row in zip(names, scores["confusion"], strict=True):
            table.add_row(escape(name), *(f"{count:,}" for count in row))
        Console().print(table)


def print_parameters(count: "ParameterCount") -> None:
    """Print the formula and number of parameters of every layer."""
    table = new_table("layer", "formula", "parameters")
    for layer in count.layers:
        table.add_row(layer.name, layer.formula, f"{layer.count:,}")
    table.add_section()
    table.add_row("total", "", f"{count.total:,}", style="bold")
    table.add_row("trainable", "", f"{count.trainable:,}", style="bold")
    Console().print(table)
    say(count.legend)


def new_table(first: str, *others: str) -> Table:
    """Return a table with names at the left and numbers at the right."""
    table = Table(title_justify="left", header_style="bold")
    table.add_column(escape(first), overflow="fold")
    for name in others:
        table.add_column(escape(name), justify="left" if name == "formula" else "right")
    return table
