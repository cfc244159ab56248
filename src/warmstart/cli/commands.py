"""The commands of the core: call the recipe, print the result and the next command."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.commands import FILES
from warmstart.comparison.commands import print_comparison
from warmstart.errors import WarmstartError
from warmstart.files import distinct_names
from warmstart.formats import duration, one_line, quantity, shell_line
from warmstart.jsonfiles import to_json
from warmstart.printing import print_json, print_table, quote, say, say_next, write_lines
from warmstart.progress import along
from warmstart.settings.shared import Documents, TableFormat, TextColumn
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
from warmstart.textfiles import standard_input

if TYPE_CHECKING:
    from warmstart.data.copies import DataReport, FileReport, SharedTexts
    from warmstart.data.drift import Drift

MOST_LISTED = 5  # contradictions of a file


def demo(config: DemoConfig) -> None:
    from warmstart.samples.demo import demo as run

    result = run(config)
    print_comparison(result.comparison.comparison, result.comparison.summary)
    say_next(f"{result.report}: open it in a browser", "pretrain your-text.txt -o runs/base")


def make_samples(config: SamplesConfig) -> None:
    from warmstart.recipes.prepare_files import make_samples

    result = make_samples(config)
    print_table(["file", "lines"], [[k, f"{v:,}"] for k, v in result.num_lines.items()])
    say(f"a reader who understands every text scores {result.attainable:.1%} on test.tsv")
    texts = quote(result.folder / "unlabelled.txt")
    say_next(result.folder, f"pretrain {texts} -o runs/base --minutes 2")


def doctor(config: DoctorConfig, as_json: bool) -> None:
    from warmstart.recipes.doctor import doctor as run

    findings = run(config)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.status:<8} {finding.name:<16} {finding.detail}")
    verdict = findings[0]
    if verdict.status == "problem":
        raise WarmstartError(verdict.detail)


def start(config: StartConfig, as_json: bool) -> None:
    from warmstart.recipes.advice import start as run

    result = run(config)
    if as_json:
        print_json(asdict(result))
        return
    for line in result.lines():
        say(line)


def report_data(config: DataConfig, as_json: bool) -> None:
    from warmstart.recipes.advice import guess_language, next_steps, public_model, sample_texts
    from warmstart.recipes.prepare_files import report_data

    report = report_data(config)
    if as_json:
        print_json(asdict(report))
        return
    _print_files(report)
    for line in _data_sentences(report):
        say(line)
    for drift in report.drift:
        _print_drift(drift, str(report.run))
    if report.drift:  # the texts are for a model that is there
        files = shell_line([str(report.run), *config.files[:1], *config.flags(TableFormat)])
        say(f"next: warmstart predict {files} -o labelled.csv")
        return
    public = public_model(guess_language(sample_texts(config)))
    for step in islice(next_steps(report, config, public), 1):
        say(f"next: {f'warmstart {step.command}  # ' if step.command else ''}{step.purpose}")


def _print_files(report: "DataReport") -> None:
    """Print the rows of every file, then their lengths: one table would be too wide to read."""
    files = report.files
    names = distinct_names([Path(file.file) for file in files])
    unlabelled = [file.unlabelled for file in files]
    rows = {
        "rows": [file.rows for file in files],
        "empty": [file.skipped for file in files],
        **({"no label": unlabelled} if any(unlabelled) else {}),
        "repeats": [file.repeats for file in files],
        "near-copies": [file.near_repeats for file in files],
    }
    units = [file.unit for file in files]
    lengths: dict[str, list[Any]] = {
        **({"in": units} if len(set(units)) > 1 else {}),
        "shortest": [file.shortest for file in files],
        "median": [file.median for file in files],
        "95%": [file.long for file in files],
        "longest": [file.longest for file in files],
    }
    if any(file.truncated is not None for file in files):
        lengths["cut"] = [file.truncated or 0 for file in files]
    title = "lengths" if "in" in lengths else f"lengths in {units[0]}"
    for columns, heading in ((rows, ""), (lengths, title)):
        cells = (map(_cell, row) for row in zip(*columns.values(), strict=True))
        print_table(
            ["file", *columns], [[n, *row] for n, row in zip(names, cells, strict=True)], heading
        )


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}"


def _print_drift(drift: "Drift", run: str) -> None:
    """Print what is measured of a file beside the same of the texts that a run was trained on."""
    sides = (drift.new, drift.usual)
    names = sorted({name for side in sides for name in side.labels or ()})
    rows = [
        ["texts", *(f"{side.texts:,}" for side in sides)],
        ["words that are new", *(f"{side.new_words:.1%}" for side in sides)],
        [f"median length in {drift.unit}", *(f"{side.median:,.0f}" for side in sides)],
        ["95% are no longer than", *(f"{side.long:,.0f}" for side in sides)],
        *(
            [
                f"label {one_line(name)}",
                *(f"{(side.labels or {}).get(name, 0):.1%}" for side in sides),
            ]
            for name in names
        ),
        ["unusual texts", *(f"{side.unusual:.1%}" for side in sides)],
    ]
    print_table(["", Path(drift.file).name, "training texts"], rows, f"drift against {run}")


def _data_sentences(report: "DataReport") -> Iterator[str]:
    from warmstart.data.splits import describe_similar

    rows = {file.file: file.rows for file in report.files}
    for file in report.files:
        if file.unknown is not None:
            yield f"{file.file}: {file.unknown:.2%} of the tokens are unknown"
        if file.labels:
            total = sum(file.labels.values())
            shares = (f"{k} {v:,} ({v / total:.0%})" for k, v in file.labels.items())
            yield f"{file.file}: labels {', '.join(shares)}"
            yield from (f"{file.file}: {note}" for note in describe_similar(file.labels))
        if file.numbers:
            yield f"{file.file}: numbers from {file.numbers}"
        yield from _contradictions(file)
    if report.shared and not any(pair.rows or pair.near for pair in report.shared):
        yield "no text occurs in two of these files"
    for pair in report.shared:
        if pair.rows or pair.near:
            yield from _shared_sentences(pair, rows[pair.b], pair.a)
    for pair in report.against:
        yield from _shared_sentences(pair, rows[pair.b], f"the training data of {report.run}")


def _contradictions(file: "FileReport") -> Iterator[str]:
    """List the texts that have several labels: at least one of these is wrong."""
    num = len(file.contradictions)
    if num:
        has = "has" if num == 1 else "have"
        yield f"{file.file}: {quantity(num, 'text')} {has} different labels in different rows:"
    for each in file.contradictions[:MOST_LISTED]:
        labels = ", ".join(f"{label} {count:,}" for label, count in each.labels.items())
        yield f"  {labels}: {each.text!r}"
    if num > MOST_LISTED:
        yield f"  and {num - MOST_LISTED:,} more (--json lists all)"


def _shared_sentences(pair: "SharedTexts", num_rows: int, other: str) -> Iterator[str]:
    of_rows = f"of {num_rows:,} rows in {pair.b}"
    texts = quantity(pair.distinct, "different text")
    example = f": {pair.copy!r}" if pair.copy else ""
    yield f"{pair.rows:,} {of_rows} also occur in {other} ({texts}){example}"
    if pair.near_copy:
        original = pair.near_copy.original
        beside = "" if original is None else f" is nearly {original!r}"
        yield f"{pair.near:,} more {of_rows} are near-copies: {pair.near_copy.text!r}{beside}"


def make_tokenizer(config: TokenizerConfig) -> None:
    from warmstart.recipes.prepare_files import make_tokenizer

    result = make_tokenizer(config)
    say(f"{result.vocab_size:,} entries; for example {' '.join(result.examples)}")
    words = [*config.files, *config.flags(TextColumn), *config.flags(Documents)]
    words += ["--tokenizer", str(result.folder)]
    say_next(result.folder, f"pretrain {shell_line(words)} -o runs/base")


def pretrain(config: PretrainConfig) -> None:
    from warmstart.recipes.pretrain import pretrain as run

    result = run(config)
    say(f"{result.summary}, after {result.tokens:,} tokens in {duration(result.elapsed_s)}")
    say_next(result.run, f"compare --from {quote(result.run)} {FILES} -o comparison")


def finetune(config: FinetuneConfig) -> None:
    from warmstart.recipes.finetune import finetune as run

    result = run(config)
    elapsed = duration(result.elapsed_s)
    say(f"validation {result.summary} at epoch {result.best_epoch}, in {elapsed}")
    if result.remark:
        say(result.remark)
    say_next(result.run, f"predict {quote(result.run)} texts.txt -o labelled.csv")


def train_translator(config: TrainTranslatorConfig) -> None:
    from warmstart.recipes.train_translator import train_translator as run

    result = run(config)
    weights = f"step {result.step:,}"
    if result.num_averaged > 1:
        weights = f"mean of the last {result.num_averaged} validations' weights"
    say(
        f"validation BLEU {result.bleu:.2f} (greedy), loss {result.loss:.3f}, {weights}, "
        f"in {duration(result.elapsed_s)}"
    )
    say_next(result.run, f"translate {quote(result.run)} sentences.txt")


def predict(config: PredictConfig, as_json: bool) -> None:
    from warmstart.recipes.use import label_lines, predict_file, write_predictions

    answers = predict_file(config, standard_input())
    if config.out is None:
        json_lines = (to_json(answer.values()) for answer in answers)
        write_lines(json_lines if as_json else label_lines(answers), None)
        return
    if as_json:
        raise WarmstartError(f"--json is for standard output; -o {config.out} has its own format")
    answers = along(answers, "labelling", "text")
    say(f"wrote {quote(write_predictions(config, config.out, answers))}")


def fill_mask(config: FillMaskConfig, as_json: bool) -> None:
    from warmstart.recipes.use import fill_file

    filled = fill_file(config, standard_input())
    lines = (to_json(asdict(text)) if as_json else one_line(text.line()) for text in filled)
    write_lines(lines, config.out)


def generate(config: GenerateConfig, as_json: bool) -> None:
    from warmstart.recipes.use import generate_texts

    texts = generate_texts(config)
    lines = (to_json({"text": text}) if as_json else text for text in texts)
    write_lines(lines, config.out)


def evaluate(config: EvaluateConfig, as_json: bool) -> None:
    from warmstart.recipes.evaluate import evaluate as run

    result = run(config)
    if as_json:
        print_json({"run": str(result.run), "file": result.file, **result.scores})
        return
    for warning in result.warnings:
        say(warning)
    _print_scores(result.scores)
    times = quantity(result.times_scored, "time")
    say(f"recorded in {result.run}/scores.json: this run was scored {times} on this file")


def _print_scores(scores: dict[str, Any]) -> None:
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}")
        for name, value in scores.items()
        if isinstance(value, (int, float))
    ]
    metric = "accuracy" if "accuracy" in scores else "perplexity"
    only = {metric: scores["interval"]} if "interval" in scores else {}  # not every task has one
    for name, interval in scores.get("intervals", only).items():
        bounds = f"{interval['low']:.4f} to {interval['high']:.4f}"
        rows.append((f"95% interval of {name.replace('_', ' ')}", bounds))
    if "calibration" in scores:
        rows.append(("calibration error", f"{scores['calibration']['expected_error']:.4f}"))
        rows.append(("Brier score", f"{scores['calibration']['brier']:.4f}"))
    print_table(("metric", "value"), rows)
    for signature in scores.get("signatures", {}).values():
        say(signature)
    for test in scores.get("against", {}).get("tests", []):
        say(
            f"{test['metric']}: {test['score']:.2f} against {test['other']:.2f} of "
            f"{scores['against']['run']}, paired bootstrap p = {test['p_value']:.3f}"
        )
    if "confusion" in scores:
        names = [row["name"] for row in scores["classes"]]
        counts = zip(names, scores["confusion"], strict=True)
        matrix = [(name, *(f"{count:,}" for count in row)) for name, row in counts]
        print_table(("true \\ predicted", *names), matrix)


def translate(config: TranslateConfig, as_json: bool) -> None:
    from warmstart.recipes.use import translate_file

    translated = translate_file(config, standard_input())
    if config.out:  # else the translations themselves show the progress
        translated = along(translated, "translating", "sentence")
    if as_json:
        lines = (
            to_json({"source": s.source, "translations": [asdict(t) for t in s.translations]})
            for s in translated
        )
    else:
        lines = (line for sentence in translated for line in sentence.lines(config.scores))
    write_lines(lines, config.out)


def embed(config: EmbedConfig, as_json: bool) -> None:
    from warmstart.recipes.embed import embed as run
    from warmstart.recipes.embed import embed_lines

    if config.out is None:
        write_lines(embed_lines(config, standard_input()), None)
        return
    result = run(config, standard_input())
    if as_json:
        facts = {"texts": result.num_texts, "vectors": result.num_vectors, "width": result.width}
        print_json({"out": str(result.out), **facts, "truncated": result.num_truncated})
        return
    vectors = f"{quantity(result.num_vectors, 'vector')} of {result.width:,} numbers"
    say(f"wrote {result.out}: {vectors}, {quantity(result.num_texts, 'text')}")
