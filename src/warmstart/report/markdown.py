"""A comparison's main tables and verdicts as Markdown, for a README.

Knows nothing about HTML pages or figures.
"""

import re
from collections.abc import Iterable, Sequence

from warmstart.report.arms import (
    COST_HEADERS,
    cost_cells,
    ranking,
    score_cells,
    score_headers,
    score_text,
)
from warmstart.report.formats import count, counted, percent
from warmstart.results.comparison import Comparison
from warmstart.results.summary import Summary


def comparison_markdown(comparison: Comparison, summary: Summary) -> str:
    """Return headline, table of arms, accuracy by labels and verdicts as Markdown."""
    labels = comparison.subsets[-1]
    blocks = [f"**{plain(summary.headline)}**", plain(ranking(comparison, summary))]
    blocks += [f"> {plain(caveat)}" for caveat in summary.caveats]
    blocks.append(_arm_table(comparison, summary))
    if len(comparison.subsets) > 1:
        blocks.append(_label_table(comparison, summary))
    verdicts = [d.sentence for d in summary.differences if d.labels == labels]
    verdicts += [race.sentence for race in summary.races if race.labels == labels]
    verdicts += _saved_sentences(summary)
    if verdicts:
        blocks.append("\n".join(f"- {plain(sentence)}" for sentence in verdicts))
    return "\n\n".join(blocks) + "\n"


def _arm_table(comparison: Comparison, summary: Summary) -> str:
    labels = comparison.subsets[-1]
    headers = (f"with {counted(labels, 'label')}", *score_headers(summary), *COST_HEADERS)
    rows = [
        (arm.name, *score_cells(summary, arm, labels), *cost_cells(summary, arm, labels))
        for arm in comparison.arms
        if summary.score(arm.name, labels) is not None
    ]
    return markdown_table(headers, rows)


def _label_table(comparison: Comparison, summary: Summary) -> str:
    rows = []
    for arm in comparison.arms:
        scores = (summary.score(arm.name, labels) for labels in comparison.subsets)
        rows.append((arm.name, *("–" if s is None else score_text(s.judged) for s in scores)))
    return markdown_table(("accuracy by labels", *map(count, comparison.subsets)), rows)


def _saved_sentences(summary: Summary) -> list[str]:
    return [
        f"what {s.warm} reaches with {counted(s.labels, 'label')} ({percent(s.accuracy)}) takes"
        f" {s.text} without pretraining"
        for s in summary.saved_over_best
    ]


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is left and whose others are right aligned."""
    rule = ("---", *("---:" for _ in headers[1:]))
    lines = [[plain(cell) for cell in headers], rule, *([plain(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def plain(text: str) -> str:
    """Escape what Markdown would read as markup and keep the text on one line."""
    escaped = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))
    return escaped.replace("\\>", "&gt;").replace("\\<", "&lt;")
