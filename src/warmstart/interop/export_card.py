"""The model card of an exported folder, for people who did not train the model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.formats import counted, duration
from warmstart.interop.export_format import ExportRequest
from warmstart.jsonfiles import typed
from warmstart.runs.facts import InputFiles
from warmstart.runs.lineage import describe_unrecorded
from warmstart.runs.saved import SavedRun
from warmstart.tasks.registry import task_of

HIDDEN = ("train_", "elapsed")  # how the names of figures begin that say nothing about quality


@dataclass(frozen=True, kw_only=True)
class CardUse:
    """How a folder is used."""

    library: str  # its name on a model hub
    code: str  # in Python


def exported_card(
    request: ExportRequest, architecture: str, num_parameters: int, use: CardUse
) -> str:
    """Return a card: what the model is, its data, budget, scores, limits, and how to load it."""
    source = request.source
    task = task_of(source)
    front = ["---", f"library_name: {use.library}", f"pipeline_tag: {task.hub_name}"]
    kind = task.description.split(" ", 1)[1]
    return "\n".join(
        [
            *front,
            *("tags:", "- warmstart", "---", "", f"# {request.title}", ""),
            f"{kind.capitalize()}: {architecture} with {num_parameters:,} parameters, trained or "
            "imported with warmstart.",
            *_section("Model", _model(source)),
            *_section("Data and budget", _data(source)),
            *_section("Scores", _scores(source)),
            *_section("Limits", _limits(source)),
            *_section("Use", _use(request, use)),
            "",
        ]
    )


def _section(heading: str, lines: Iterator[str]) -> list[str]:
    return ["", f"## {heading}", "", *lines]


def _model(source: SavedRun) -> Iterator[str]:
    facts: dict[str, Any] = {
        "longest text": f"{source.model.max_length:,} tokens",
        "vocabulary": f"{source.tokenizer.vocab_size:,} entries",
        "width, depth, heads": f"{source.model.width}, {source.model.depth}, {source.model.heads}",
    }
    if "classes" in source.config:
        facts["classes"] = ", ".join(map(str, source.config["classes"]))
    yield from _table(facts)


def _data(source: SavedRun) -> Iterator[str]:
    """Say what it was trained on, and what that took."""
    if not source.folder.data_file.exists():
        yield "Not recorded."
        return
    data, scores = source.data, source.folder.scores()
    listed = source.folder.read_json(source.folder.data_file)
    inputs = typed(InputFiles, {"files": listed.get("files", [])}, source.folder.data_file)
    facts: dict[str, Any] = {}
    if inputs.files:
        facts["files"] = ", ".join(f"`{Path(file.path).name}`" for file in inputs.files)
    if data.rows:
        facts["rows"] = f"{data.rows:,}"
    if data.lineage:
        facts["started from"] = counted(len(data.lineage), "earlier training")
    tokens = scores.tokens_seen + sum(stage.tokens_seen for stage in data.lineage)
    if tokens:
        facts["tokens read in pretraining"] = f"{tokens:,}"
    elapsed_s = scores.elapsed_s + sum(stage.elapsed_s for stage in data.lineage)
    if elapsed_s:
        facts["training time, all stages"] = duration(elapsed_s)
    yield from _table(facts)
    if source.has_unrecorded_texts:
        yield from ("", f"{describe_unrecorded('It')}.")


def _scores(source: SavedRun) -> Iterator[str]:
    """Give the figures on validation data, and every test with its interval and leaks."""
    valid = source.folder.valid_scores()
    shown = {n: f"{v:.4g}" for n, v in valid.items() if not n.startswith(HIDDEN)}
    yield "On validation data, which may have chosen the settings:" if shown else "None recorded."
    yield from ("", *_table(shown)) if shown else ()
    for entry in source.folder.test_scores():
        scores = entry["scores"]
        yield from ("", f"On test data (`{Path(entry['file']).name}`, {entry['when'][:10]}):", "")
        yield from _table(_with_intervals(scores))
        yield from ("", _leaks(scores))


def _with_intervals(scores: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures of a test as text; an interval covers 95%."""
    main = next((name for name in ("accuracy", "perplexity") if name in scores), "")
    intervals = {main: scores.get("interval"), **scores.get("intervals", {})}
    figures = {name: value for name, value in scores.items() if isinstance(value, float)}
    shown = {name: f"{value:.4g}" for name, value in figures.items()}
    for name, span in intervals.items():
        if span and name in shown:
            shown[name] += f" (95% interval {span['low']:.4g} to {span['high']:.4g})"
    return shown


def _leaks(scores: Mapping[str, Any]) -> str:
    copies, near = (scores.get(f"{how}seen_in_training") for how in ("", "nearly_"))
    if copies is None:
        return "Whether its texts also occur in the training data was not checked."
    return (
        f"Of its texts, {copies:,} also occur in the training data, {near or 0:,} more nearly so."
    )


def _limits(source: SavedRun) -> Iterator[str]:
    yield f"- It reads {source.model.max_length:,} tokens; of a longer text it reads a part."
    yield "- Scores hold for texts like those it was tested on, in their language and domain."
    if not source.folder.test_scores():
        yield "- It has not been tested on data that nothing was chosen with."
    if "classes" in source.config:
        yield "- It answers with one of its classes, also where none fits."
    yield "- What the training texts say wrongly or unfairly, it has learned too."


def _use(request: ExportRequest, use: CardUse) -> Iterator[str]:
    yield from ("```python", use.code.strip().replace("FOLDER", request.title), "```", "")
    here = task_of(request.source).usage(Path("RUN"))
    yield from ("With warmstart, where RUN is the run that was exported:", "", "```sh", here)
    others = {"transformers": "hf", "onnx": "onnx", "ctranslate2": "ctranslate2"}
    for library, name in others.items():
        if library != use.library:
            yield f"warmstart export RUN --to {name} -o exported  # for {library}"
    yield "```"


def _table(values: Mapping[str, object]) -> Iterator[str]:
    yield from ("| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in values.items()))
