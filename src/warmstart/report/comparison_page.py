"""The report of a comparison: the verdict first, then the results, then what they rest on."""

from collections.abc import Mapping
from pathlib import Path

from warmstart.formats import counted
from warmstart.report.attention_figure import draw_layers
from warmstart.report.comparison_figures import draw_differences, draw_epochs, draw_labels
from warmstart.report.html import Section, render, write_page
from warmstart.report.style import arm_colours
from warmstart.results.attention import AttentionMap, readable
from warmstart.results.comparison import AttentionExample, Comparison, Contrast
from warmstart.results.summary import Summary

MAX_DIFFERENCES = 30  # a figure with more rows shows the largest subset only
MAX_EPOCHS = 10  # columns of a table by epoch
SHOWN = 10  # disagreements of each kind that are visible at once
FOLDED = 100  # and that open with a click
MAX_CHARS = 400  # of a text that is shown
DARKEST = 0.65  # shade of the word with the most attention


def write_comparison_page(
    comparison: Comparison, summary: Summary, path: Path, contrast: Contrast | None = None
) -> Path:
    """Write the report of a comparison."""
    sections = comparison_sections(comparison, summary, contrast)
    return write_page(comparison.title, [*sections, reading_section(comparison)], path)


def comparison_sections(
    comparison: Comparison, summary: Summary, contrast: Contrast | None = None
) -> list[Section]:
    """Return every section of the report, the verdict first, without the explanations."""
    page = _ComparisonPage(comparison, summary)
    return [
        page.verdict(),
        page.epochs(),
        page.arms(),
        *page.labels(),
        *page.differences(),
        *(contrast_sections(contrast) if contrast is not None else ()),
        page.tuning(),
        page.section("Class balance", "classes"),
        page.shared_texts(),
        page.section("Settings", "settings"),
    ]


def reading_section(comparison: Comparison) -> Section:
    """Explain the terms of the report."""
    body = render("comparison/reading.html", {"comparison": comparison})
    return Section(title="How to read this page", pieces=[body])


class _ComparisonPage:
    """The sections of a comparison, and the values that all their templates share."""

    def __init__(self, comparison: Comparison, summary: Summary) -> None:
        self.comparison, self.summary = comparison, summary
        self.most_labels = comparison.subsets[-1]
        self.values = {
            "comparison": comparison,
            "summary": summary,
            "labels": self.most_labels,
            "colours": arm_colours(comparison.arms),
            "splits": [s for s in (comparison.validation, comparison.test) if s is not None],
        }

    def section(
        self, title: str, template: str, values: Mapping[str, object] | None = None
    ) -> Section:
        body = render(f"comparison/{template}.html", {**self.values, **(values or {})})
        return Section(title=title, pieces=[body])

    def verdict(self) -> Section:
        """State the result, and what limits it."""
        scores = [s for s in self.summary.scores if s.labels == self.most_labels]
        warm = {arm.name for arm in self.comparison.arms if arm.kind == "warm"}
        between_runs = [
            d
            for d in self.summary.differences
            if d.labels == self.most_labels and {d.first, d.second} <= warm
        ]
        ranking = sorted(scores, key=lambda score: -score.judged.accuracy)
        return self.section(
            "Verdict", "verdict", {"ranking": ranking, "between_runs": between_runs}
        )

    def epochs(self) -> Section:
        """Show accuracy by epoch, and when warm reaches the best of cold."""
        subsets = []
        for labels in reversed(self.comparison.subsets):
            times = [t for t in self.summary.times_to_accuracy if t.labels == labels]
            last = max((len(time.gaps) for time in times), default=1)
            steps = max(min(last, MAX_EPOCHS) - 1, 1)
            subsets.append(
                {
                    "labels": labels,
                    "drawing": draw_epochs(self.comparison, self.summary, labels),
                    "times": times,
                    "epochs": sorted({1 + i * (last - 1) // steps for i in range(steps + 1)}),
                }
            )
        values = {"subsets": subsets, "caption": self._epochs_caption()}
        return self.section("Accuracy by epoch", "epochs", values)

    def _epochs_caption(self) -> str:
        num_seeds = len(self.comparison.seeds)
        sentences = ["Accuracy on the validation texts after each epoch, one seed."]
        if num_seeds > 1:
            sentences = [
                f"Accuracy on the validation texts after each epoch, mean over {num_seeds} seeds.",
                "Bands show the range from the worst to the best seed.",
            ]
        sentences.append(
            "A large hollow mark shows the best epoch of the mean curve;"
            " the number beside a name is its accuracy there."
        )
        if any(arm.kind == "baseline" for arm in self.comparison.arms):
            sentences.append("The dashed line is the arm that has no epochs.")
        return " ".join(sentences)

    def arms(self) -> Section:
        """Show what every arm reached with all labels, and what it cost."""
        labels, summary = self.most_labels, self.summary
        costs = {(cost.arm, cost.labels): cost for cost in summary.costs}
        rows = [
            (arm, score, summary.curve(arm.name, labels), costs[arm.name, labels])
            for arm in self.comparison.arms
            if (score := summary.score(arm.name, labels)) is not None
        ]
        return self.section("The arms", "arms", {"rows": rows})

    def labels(self) -> list[Section]:
        """Show accuracy by number of labels, and the labels that pretraining saved."""
        has_figure = len(self.comparison.subsets) > 1
        if not has_figure and not self.summary.saved_over_best:
            return []
        saved_over_cold = self.summary.saved_over_cold
        values = {
            "drawing": draw_labels(self.comparison, self.summary) if has_figure else None,
            "cold_needs": {(saved.warm, saved.labels): saved.text for saved in saved_over_cold},
        }
        return [self.section("Accuracy by number of labels", "labels", values)]

    def differences(self) -> list[Section]:
        """Show paired differences and the verdict on each, the largest subset first."""
        rows = self.summary.differences
        if not rows:
            return []
        subset = self.most_labels if len(rows) > MAX_DIFFERENCES else None
        groups = [
            (labels, [row for row in rows if row.labels == labels])
            for labels in reversed(self.comparison.subsets)
        ]
        drawing = draw_differences(self.comparison, self.summary, subset)
        values = {"drawing": drawing, "groups": [group for group in groups if group[1]]}
        return [self.section("Paired differences", "differences", values)]

    def tuning(self) -> Section:
        """Show which settings were tried for each arm."""
        tuned = [cell for cell in self.comparison.cells if cell.trials]
        budgets: dict[str, int] = {}
        for cell in tuned:
            budgets[cell.arm] = max(budgets.get(cell.arm, 0), len(cell.trials))
        groups = [
            (labels, [cell for cell in tuned if cell.labels == labels])
            for labels in reversed(self.comparison.subsets)
        ]
        return self.section("Tuning", "tuning", {"budgets": budgets, "groups": groups})

    def shared_texts(self) -> Section:
        """Show texts that files share, and the scores without them."""
        scores = [s for s in self.summary.scores if s.labels == self.most_labels and s.clean]
        return self.section("Shared texts", "shared", {"clean_scores": scores})


def contrast_sections(contrast: Contrast) -> list[Section]:
    """Return the attention of both models on one text, where recorded, and their disagreements."""
    learned = (
        f"Both models were trained on {counted(contrast.labels, 'label')} with seed "
        f"{contrast.seed}."
    )
    sections = [disagreements_section(contrast, learned)]
    if contrast.example is not None:
        sections.insert(0, attention_section(contrast.example, learned))
    return sections


def attention_section(example: AttentionExample, learned: str) -> Section:
    """Show the attention of each arm's model on one text."""
    maps = {arm: attention.joined() for arm, attention in example.maps.items()}
    arms = [
        {
            "name": arm,
            "prediction": example.predictions[arm],
            "words": _shaded_words(attention),
            "entropy": attention.entropy(),
        }
        for arm, attention in maps.items()
    ]
    drawing = draw_layers(maps)
    values = {"example": example, "arms": arms, "drawing": drawing, "learned": learned}
    body = render("comparison/attention.html", values)
    return Section(title="Attention on one text", pieces=[body])


def _shaded_words(attention: AttentionMap) -> list[tuple[str, float]]:
    """Return each word with the opacity of its background."""
    received = attention.received()
    shades = DARKEST * received / (received.max() or 1.0)
    return list(zip(map(readable, attention.keys.pieces), shades.tolist(), strict=True))


def disagreements_section(contrast: Contrast, learned: str) -> Section:
    """Show the texts that two arms label differently, grouped by which arm is correct."""
    warm, cold, rows = contrast.warm, contrast.cold, contrast.disagreements
    neither = [d for d in rows if d.label not in (d.first, d.second)]
    groups = [
        {"title": f"Only {warm} is correct", "rows": [d for d in rows if d.first == d.label]},
        {"title": f"Only {cold} is correct", "rows": [d for d in rows if d.second == d.label]},
        {"title": "Neither is correct", "rows": neither},
    ]
    values = {
        "contrast": contrast,
        "groups": groups,
        "learned": learned,
        "num_shown": SHOWN,
        "num_folded": FOLDED,
        "max_chars": MAX_CHARS,
    }
    body = render("comparison/disagreements.html", values)
    return Section(title=f"Where {warm} and {cold} disagree", pieces=[body])
