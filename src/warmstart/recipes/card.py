"""The model card of a run: Markdown for people, with the front matter that model hubs read."""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from warmstart.batching.truncation import REMAINDER
from warmstart.files import write_whole
from warmstart.formats import code_span, duration, markdown, one_line, plain_text, quantity
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import weight_shapes
from warmstart.runs.facts import ConfigFile, DataFile, InputFiles, ScoresFile, TestFacts
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import describe_unrecorded, read_data
from warmstart.settings.model import ModelConfig, model_from_json
from warmstart.tasks.hub import HubModel, saved_hub_model
from warmstart.tasks.linear import LinearTask
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import Task

FILE = "README.md"
HIDDEN = ("train_", "elapsed", "epoch")  # beginnings of figures that say nothing about quality
FIGURES = {  # names of figures in prose; a figure that is not listed keeps its own
    "f1": "F1",
    "entity_f1": "entity F1",
    "entity_f1_unseen": "entity F1 on texts that do not occur in the training data",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "micro_f1_unseen": "micro F1 on texts that do not occur in the training data",
    "average_precision": "average precision",
    "mae": "MAE (mean absolute error)",
    "mae_unseen": "MAE on texts that do not occur in the training data",
    "rmse": "RMSE (root of the mean squared error)",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "margin": "margin of 90% intervals",
    "interval_coverage": "numbers inside their 90% intervals",
    "mlm_accuracy": "masked tokens restored",
    "mlm_loss": "loss on masked tokens",
    "nsp_accuracy": "next sentences judged correctly",
    "nsp_loss": "loss on next sentences",
    "accuracy_unseen": "accuracy on texts that do not occur in the training data",
    "calibration_error": "calibration error",
    "uncalibrated_error": "calibration error before temperature scaling",
    "temperature": "temperature that calibrates probabilities",
}


@dataclass(frozen=True)
class RunFacts:
    """What the files of a run tell its reader."""

    folder: RunFolder
    scores: ScoresFile  # as in scores.json, which is written after the card

    @cached_property
    def config(self) -> ConfigFile:
        return from_json(ConfigFile, self.folder.config(), self.folder.config_file)

    @cached_property
    def task(self) -> Task:
        return task_named(self.folder.entry("task"))

    @cached_property
    def model(self) -> ModelConfig | None:
        """Return the architecture; None: the run is no Transformer."""
        return model_from_json(self.config.model) if self.config.model else None

    @cached_property
    def data(self) -> DataFile | None:
        return read_data(self.folder) if self.folder.data_file.exists() else None

    @cached_property
    def hub_model(self) -> HubModel | None:
        """Return the facts that an export depends on; None: the run is no Transformer."""
        config, weights = self.folder.config(), self.folder.weights_file
        return saved_hub_model(self.model, self.task, config, weights) if self.model else None

    @property
    def kind(self) -> str:
        """Return the kind of model with its article, such as "a classifier"."""
        description = self.task.description
        return self.model.mark(description) if self.model else description


def write_card(folder: RunFolder, scores: dict[str, Any], name: str | None = None) -> None:
    """Write the card of a run that is about to be finished with these scores."""
    own = from_json(ScoresFile, scores, folder.scores_file)
    facts = RunFacts(folder, replace(own, ledger=folder.scores().ledger))
    write_whole(folder.path / FILE, run_card(facts, name or folder.path.name).encode())


def enter_test(folder: RunFolder, entry: dict[str, Any]) -> None:
    """Enter a test evaluation in the ledger and the card; a card that was edited stays."""
    file = folder.path / FILE
    card = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    heading = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = plain_text(heading[1]) if heading else ""
    is_ours = heading and card == run_card(RunFacts(folder, folder.scores()), name)
    folder.add_scores(entry)
    if is_ours:
        write_whole(file, run_card(RunFacts(folder, folder.scores()), name).encode())


def run_card(facts: RunFacts, name: str) -> str:
    """Return the card of a run."""
    arm = f" ({markdown(facts.config.arm)})" if facts.config.arm else ""
    command = code_span(f"warmstart {facts.config.command}")
    sentence = f"{facts.kind}{arm}, made with {command}."
    intro = f"{sentence[0].upper()}{sentence[1:]}"
    return card_text("warmstart", name, intro, facts, _use(facts, name))


def card_text(library: str, title: str, intro: str, facts: RunFacts, use: Iterator[str]) -> str:
    """Return a card: what the model is, its data, budget, scores, limits, and how to load it."""
    front = ["---", f"library_name: {library}", f"pipeline_tag: {facts.task.hub_name}"]
    return "\n".join(
        [
            *front,
            *("tags:", "- warmstart", "---", "", f"# {markdown(title)}", "", intro),
            *_section("Model", _model(facts)),
            *_section("Data and budget", _data(facts)),
            *_section("Scores", _scores(facts)),
            *_section("Limits", _limits(facts)),
            *_section("Use", use),
            "",
        ]
    )


def _section(heading: str, lines: Iterator[str]) -> list[str]:
    return ["", f"## {heading}", "", *lines]


def _model(facts: RunFacts) -> Iterator[str]:
    shapes = weight_shapes(facts.folder.weights_file)
    rows: dict[str, Any] = {"parameters": f"{sum(map(math.prod, shapes.values())):,}"}
    if model := facts.model:
        depth = f"{model.depth} + {model.decoder_depth}" if model.decoder_depth else model.depth
        norm = f"{model.norm_position}-{model.norm}"
        rows |= {
            "width, depth, heads": f"{model.width}, {depth}, {model.heads}",
            "positions, norm, activation": f"{model.positions}, {norm}, {model.activation}",
            "vocabulary": f"{model.vocab_size:,} entries",
            "longest text": f"{model.max_length:,} tokens",
        }
    if facts.config.source:
        rows["imported from"] = markdown(str(facts.config.source))
    if facts.config.classes:
        rows["classes"] = ", ".join(map(markdown, facts.config.classes))
    yield from _table(rows)


def _data(facts: RunFacts) -> Iterator[str]:
    """Yield a table of the training data, and of the steps, tokens and time it took."""
    if facts.data is None:
        yield "Not recorded."
        return
    rows = dict(_data_rows(facts, facts.data))
    yield from _table(rows) if rows else ()
    if any(stage.unrecorded for stage in (facts.data, *facts.data.lineage)):
        yield from (*([""] if rows else []), f"{describe_unrecorded('It')}.")


def _data_rows(facts: RunFacts, data: DataFile) -> Iterator[tuple[str, str]]:
    file, scores = facts.folder.data_file, facts.scores
    listed = facts.folder.read_json(file).get("files", [])
    files = from_json(InputFiles, {"files": listed}, file).files
    if files:
        yield "files", ", ".join(code_span(Path(entry.path).name) for entry in files)
    if data.rows:
        yield "rows", f"{data.rows:,}"
    if scores.labels:
        yield from (("labels", _labels_taken(scores)), ("seed", str(scores.seed)))
    if data.lineage:
        yield "started from", quantity(len(data.lineage), "earlier training")
    if facts.config.lengths:
        yield "steps", f"{facts.config.lengths[-1].steps:,}"
    if scores.faults:
        yield "steps taken again after a fault", ", ".join(f"{step:,}" for step in scores.faults)
    if scores.overflows:
        yield "steps skipped because fp16 overflowed", f"{scores.overflows:,}"
    tokens = scores.tokens_seen + sum(stage.tokens_seen for stage in data.lineage)
    if tokens:
        yield "tokens read in pretraining", f"{tokens:,}"
    elapsed_s = scores.elapsed_s + sum(stage.elapsed_s for stage in data.lineage)
    if elapsed_s:
        yield "training time, all stages", duration(elapsed_s)


def _labels_taken(scores: ScoresFile) -> str:
    """Say how many labels a model took, and how many of these it was trained on."""
    labels, num_trained = scores.labels, scores.trained_on
    parts = f" ({num_trained:,} to train on, {labels - num_trained:,} to validate)"
    return f"{labels:,}{parts if num_trained < labels else ''}"


def _scores(facts: RunFacts) -> Iterator[str]:
    """Give the figures on validation data, and every test with its interval and leaks."""
    valid = facts.scores.valid or {}
    shown = {n: f"{v:.4g}" for n, v in valid.items() if not n.startswith(HIDDEN)}
    if shown and facts.scores.scored_labels:
        yield (
            "On labels that this model was then trained on, too: these are the scores of models "
            f"with the same settings, trained on {facts.scores.scored_labels:,} labels."
        )
    elif shown:
        yield "On validation data, which may have chosen the settings:"
    else:
        yield "None recorded."
    yield from ("", *_figures(shown)) if shown else ()
    for entry in facts.scores.ledger:
        test = from_json(TestFacts, entry.scores, facts.folder.scores_file, "ledger.scores")
        is_best = entry.checkpoint == "best"
        weights = "" if is_best else f", weights of {markdown(entry.checkpoint)}"
        file, day = code_span(Path(entry.file).name), markdown(entry.when[:10])
        yield from ("", f"On test data ({file}, {day}{weights}):")
        yield from ("", *_figures(_with_intervals(entry.scores, test)), "", _leaks(test))


def _with_intervals(scores: Mapping[str, Any], test: TestFacts) -> dict[str, str]:
    """Return the figures of a test as text; an interval covers 95%."""
    main = next((name for name in ("accuracy", "perplexity") if name in scores), "")
    intervals = {main: test.interval, **test.intervals}
    figures = {name: value for name, value in scores.items() if isinstance(value, float)}
    shown = {name: f"{value:.4g}" for name, value in figures.items()}
    for name, span in intervals.items():
        if span and name in shown:
            shown[name] += f" (95% interval {span.low:.4g} to {span.high:.4g})"
    return shown


def _leaks(test: TestFacts) -> str:
    copies, near = test.seen_in_training, test.nearly_seen_in_training
    if copies is None:
        return "Whether its texts also occur in the training data was not checked."
    return (
        f"Of its texts, {copies:,} also occur in the training data; {near or 0:,} more are nearly "
        "the same as one there."
    )


def _limits(facts: RunFacts) -> Iterator[str]:
    if facts.model:
        given = facts.config.settings.get("truncate")
        kept = next((part for rule, part in REMAINDER.items() if rule == given), None)
        part = f"its {kept}" if kept else "a part"
        if facts.task.reads_all:
            part = "all, in windows that overlap (other libraries read its beginning)"
        elif kept not in (None, REMAINDER["head"]):
            part += " (other libraries read its beginning)"
        yield f"- It reads {facts.model.max_length:,} tokens, and of a longer text {part}."
    yield "- Scores hold for texts like those it was tested on, in their language and domain."
    if not facts.scores.ledger:
        yield "- It has not been tested on data that nothing was chosen with."
    if facts.task.num_outputs(facts.folder.config()):
        yield f"- {facts.task.limit}"
    if facts.hub_model and (problem := facts.hub_model.problem):
        yield f"- It cannot be exported to Hugging Face: {problem}."
    yield "- What the training texts say wrongly or unfairly, it has learned too."


def _use(facts: RunFacts, name: str) -> Iterator[str]:
    load = f"model = warmstart.load({json.dumps(name)})"
    yield from ("```python", "import warmstart", "", load, "```", "")
    quoted = shlex.quote(one_line(name))
    yield from (
        "```sh",
        facts.task.usage(Path(quoted)),
        f"warmstart serve {quoted}",
        *exports(facts, quoted),
    )
    yield "```"


def exports(facts: RunFacts, name: str) -> Iterator[str]:
    """Yield the commands that take a run to other libraries, with what loads the result there."""
    for target, loader in _loaders(facts).items():
        yield f"warmstart export {name} --to {target} -o exported  # then {loader}"


def _loaders(facts: RunFacts) -> dict[str, str]:
    """Return what loads an exported run, by the format."""
    if isinstance(facts.task, LinearTask):
        return {"onnx": 'onnxruntime.InferenceSession("exported/model.onnx")'}
    ending, loaders = facts.task.hub_class, dict[str, str]()
    if facts.model is None or facts.model.ablated != "nothing" or ending is None:
        return loaders
    if facts.hub_model and (architecture := facts.hub_model.architecture):
        loaders["hf"] = f'transformers.{architecture}.from_pretrained("exported")'
    graph = "encoder_model" if facts.model.decoder_depth else "model"
    loaders["onnx"] = f'onnxruntime.InferenceSession("exported/{graph}.onnx")'
    if facts.model.decoder_depth:
        loaders["ctranslate2"] = 'ctranslate2.Translator("exported")'
    elif ending == "ForCausalLM":
        loaders["ctranslate2"] = 'ctranslate2.Generator("exported")'
    return loaders


def _table(values: Mapping[str, object]) -> Iterator[str]:
    rows = (f"| {name} | {value} |" for name, value in values.items())
    yield from ("| | |", "|---|---|", *rows)


def _figures(values: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of figures under their names in prose."""
    names = (FIGURES.get(name, markdown(name.replace("_", " "))) for name in values)
    yield from _table(dict(zip(names, values.values(), strict=True)))
