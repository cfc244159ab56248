"""The model card of an exported folder: metadata for model hubs, a table, code that loads it."""

from collections.abc import Mapping

from warmstart.runs.saved import SavedRun
from warmstart.tasks.registry import task_of

_CARD = """\
---
library_name: transformers
pipeline_tag: {tag}
tags:
- warmstart
---

# {title}

A {architecture}, trained or imported with warmstart.

{facts}
{scores}
```python
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{title}")
model = {auto_class}.from_pretrained("{title}")
```
"""


def exported_card(source: SavedRun, architecture: str, title: str, num_parameters: int) -> str:
    """Return the card of a run that was exported for transformers."""
    task = task_of(source)
    facts: dict[str, object] = {
        "architecture": architecture,
        "parameters": f"{num_parameters:,}",
        "longest text": f"{source.model.max_length:,} tokens",
        "vocabulary": f"{source.tokenizer.vocab_size:,}",
    }
    if "classes" in source.config:
        facts["classes"] = ", ".join(map(str, source.config["classes"]))
    scores = source.folder.valid_scores()
    return _CARD.format(
        tag=task.hub_name,
        auto_class=f"AutoModel{(task.hub_class or '').removeprefix('Model')}",
        architecture=architecture,
        title=title,
        facts=_table(facts),
        scores=f"\nOn validation data:\n\n{_table(scores)}\n" if scores else "",
    )


def _table(values: Mapping[str, object]) -> str:
    shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in values.items()}
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in shown.items())])
