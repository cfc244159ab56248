"""Rows and figures -> one self-contained HTML page, and Markdown.

The page needs no network and no script. Knows nothing about how the figures were obtained.
"""

from collections.abc import Sequence
from pathlib import Path

from warmstart.files import write_whole
from warmstart.report.background import background_sections, reading_section
from warmstart.report.contrast import Contrast, contrast_sections
from warmstart.report.markdown import comparison_markdown
from warmstart.report.markup import (
    Html,
    Section,
    box,
    bullets,
    document,
    figure,
    folded,
    paragraph,
    table,
)
from warmstart.report.sections import finding_sections
from warmstart.results.comparison import Comparison
from warmstart.results.summary import Summary

__all__ = [
    "Html",
    "Section",
    "box",
    "bullets",
    "comparison_markdown",
    "comparison_sections",
    "figure",
    "folded",
    "paragraph",
    "table",
    "write_comparison_page",
    "write_page",
]


def write_page(title: str, sections: Sequence[Section], path: Path) -> Path:
    """Write sections as one HTML file, whole or not at all."""
    return write_whole(path, document(title, sections).encode())


def write_comparison_page(
    comparison: Comparison,
    summary: Summary,
    path: Path,
    extra_sections: Sequence[Section] = (),
    contrast: Contrast | None = None,
) -> Path:
    """Write the report of a comparison; extra sections come before the explanations."""
    found = comparison_sections(comparison, summary, contrast)
    sections = [*found, *extra_sections, reading_section(comparison)]
    return write_page(comparison.title, sections, path)


def comparison_sections(
    comparison: Comparison, summary: Summary, contrast: Contrast | None = None
) -> list[Section]:
    """Return everything a comparison has to show, for a page that shows more."""
    return [
        *finding_sections(comparison, summary),
        *(contrast_sections(contrast) if contrast is not None else ()),
        *background_sections(comparison, summary),
    ]
