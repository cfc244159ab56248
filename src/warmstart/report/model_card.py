"""The model card of a run: facts in Markdown, with the front matter that model hubs read."""

from collections.abc import Mapping, Sequence
from typing import Any


def model_card(
    title: str,
    task: str,
    sentence: str,
    facts: Mapping[str, Any],
    scores: Mapping[str, Any],
    usage: Sequence[str],
) -> str:
    """Return the card of one run."""
    front = [
        "---",
        "library_name: warmstart",
        f"pipeline_tag: {task}",
        "tags:",
        "- warmstart",
        "---",
    ]
    lines = [*front, "", f"# {title}", "", sentence, "", *_table("Model", facts), ""]
    validation = {name: value for name, value in scores.items() if _is_validation(name)}
    lines += [*_table("Validation", validation), "", "## Use", "", "```sh", *usage, "```", ""]
    return "\n".join(lines)


def _is_validation(name: str) -> bool:
    """Leave out training losses and times, which are logged with the validation scores."""
    return not name.startswith("train_") and not name.endswith("_s")


def _table(heading: str, values: Mapping[str, Any]) -> list[str]:
    rows = [f"| {name} | {_shown(value)} |" for name, value in values.items()]
    return [f"## {heading}", "", "| | |", "|---|---|", *rows]


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
