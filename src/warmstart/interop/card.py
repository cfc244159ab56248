"""The model card of an exported folder: front matter that model hubs read, facts, how to load it.

Knows nothing about how the folder is written.
"""

from typing import Any

from warmstart.runs.saved import Source

TASKS = {
    "causal": ("text-generation", "AutoModelForCausalLM"),
    "masked": ("fill-mask", "AutoModelForMaskedLM"),
    "base": ("feature-extraction", "AutoModel"),
    "classifier": ("text-classification", "AutoModelForSequenceClassification"),
}


def exported_card(source: Source, architecture: str, title: str, parameters: int) -> str:
    """Return the card of a run that was written for transformers."""
    task, auto = TASKS[source.kind]
    facts: dict[str, Any] = {
        "architecture": architecture,
        "parameters": f"{parameters:,}",
        "longest text": f"{source.model.max_length:,} tokens",
        "vocabulary": f"{source.tokenizer.vocab_size:,}",
    }
    if source.kind == "classifier":
        facts["classes"] = ", ".join(map(str, source.config["classes"]))
    scores = {}
    if source.run.scores_file.exists():
        scores = source.run.read_json(source.run.scores_file).get("valid", {})
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {task}",
        "tags:",
        "- warmstart",
        "---",
        "",
        f"# {title}",
        "",
        f"A {architecture} trained or carried over with warmstart.",
        "",
        *_table(facts),
        "",
    ]
    if scores:
        lines += ["On validation data:", "", *_table(scores), ""]
    return "\n".join([*lines, *_usage(auto, title)])


def _table(values: dict[str, Any]) -> list[str]:
    rows = [f"| {name} | {_shown(value)} |" for name, value in values.items()]
    return ["| | |", "|---|---|", *rows]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _usage(auto: str, title: str) -> list[str]:
    return [
        "```python",
        f"from transformers import AutoTokenizer, {auto}",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{title}")',
        f'model = {auto}.from_pretrained("{title}")',
        "```",
        "",
    ]
