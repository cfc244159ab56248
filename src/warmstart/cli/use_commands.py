"""The commands that use a run: call the recipe, print labels, texts, vectors or scores."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from warmstart.cli.options import Command
from warmstart.cli.printing import print_json, print_table, quoted, say, write_lines
from warmstart.errors import WarmstartError
from warmstart.formats import counted, one_line, visible
from warmstart.jsonfiles import to_json
from warmstart.progress import along
from warmstart.settings.serving import ServeConfig
from warmstart.settings.translating import TranslateConfig
from warmstart.settings.using import (
    EmbedConfig,
    EvaluateConfig,
    FillMaskConfig,
    GenerateConfig,
    PredictConfig,
)
from warmstart.textfiles import standard_input

if TYPE_CHECKING:
    from warmstart.results.model_views import WordSimilarity


def predict(config: PredictConfig, as_json: bool) -> None:
    """Label texts: one row in, one row out."""
    from warmstart.recipes.predict import label_lines, predict_file, write_predictions

    answers = predict_file(config, standard_input())
    if config.out is None:
        json_lines = (to_json(answer.values()) for answer in answers)
        write_lines(json_lines if as_json else label_lines(answers), None)
        return
    if as_json:
        raise WarmstartError(f"--json is for standard output; -o {config.out} has its own format")
    answers = along(answers, "labelling", "text")
    say(f"wrote {quoted(write_predictions(config, config.out, answers))}")


def fill_mask(config: FillMaskConfig, as_json: bool) -> None:
    """Restore masked words: the most probable ones, for each [MASK] in a text."""
    from warmstart.recipes.fill_mask import fill_file

    filled = fill_file(config, standard_input())
    lines = (to_json(asdict(text)) if as_json else one_line(text.line()) for text in filled)
    write_lines(lines, config.out)


def generate(config: GenerateConfig, as_json: bool) -> None:
    """Generate text with a causal language model."""
    from warmstart.recipes.generate import generate_texts

    texts = generate_texts(config)
    lines = (to_json({"text": text}) if as_json else text for text in texts)
    write_lines(lines, config.out)


def evaluate(config: EvaluateConfig, as_json: bool) -> None:
    """Score a run on held-out data, and record the score in the run."""
    from warmstart.recipes.evaluate import evaluate as run

    result = run(config)
    if as_json:
        print_json({"run": str(result.run), "file": result.file, **result.scores})
        return
    if result.leak:
        say(result.leak)
    _print_scores(result.scores)
    times = counted(result.times_scored, "time")
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
    """Translate sentences: one line in, one line out."""
    from warmstart.recipes.translate import translate_file

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
    """Turn texts into vectors, or compare one word's vectors between texts."""
    from warmstart.recipes.embed import embed as run
    from warmstart.recipes.embed import embed_lines

    if config.word is None and config.out is None:
        write_lines(embed_lines(config, standard_input()), None)
        return
    result = run(config, standard_input())
    if as_json and result.word:
        print_json(result.word.to_json())
    elif as_json:
        facts = {"texts": result.num_texts, "vectors": result.num_vectors, "width": result.width}
        print_json({"out": str(result.out), **facts, "truncated": result.num_truncated})
    elif result.word:
        _print_word(result.word)
        if result.out:
            say(f"wrote {result.out}")
    else:
        vectors = f"{counted(result.num_vectors, 'vector')} of {result.width:,} numbers"
        say(f"wrote {result.out}: {vectors}, {counted(result.num_texts, 'text')}")


def _print_word(report: "WordSimilarity") -> None:
    from warmstart.report.word_figure import table_headers, table_rows

    for number, sentence in enumerate(report.sentences, 1):
        start, end = report.spans[number - 1]
        before, word, after = sentence[:start], sentence[start:end], sentence[end:]
        parts = (f"{number}  {visible(before)}", (visible(word), "bold"), visible(after))
        Console().print(Text.assemble(*parts))
    title = "cosine similarity between the sentences; layer 0: embeddings"
    print_table(table_headers(report), table_rows(report), title)
    say(report.sentence)


def serve(config: ServeConfig) -> None:
    """Serve runs over HTTP, with a page to try them."""
    from warmstart.recipes.serve import serve as run

    say(f"stopped: {counted(run(config).num_requests, 'request')} answered")


COMMANDS = (
    Command("predict", predict, "runs/warm reviews.csv -o labelled.csv"),
    Command("fill-mask", fill_mask, 'runs/base --text "A [MASK] book."'),
    Command("generate", generate, 'runs/base --prompt "Ce livre" --temperature 0.8 --top-p 0.9'),
    Command("evaluate", evaluate, "runs/warm --test test.tsv"),
    Command("translate", translate, "runs/en-de sentences.txt --beam 5 -o translations.txt"),
    Command("embed", embed, "runs/base texts.txt --pooling mean -o vectors.npy"),
    Command("serve", serve, "runs/warm fr=runs/en-fr --port 8000"),
)
