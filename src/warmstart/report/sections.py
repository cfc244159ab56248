"""What a comparison found, as sections of a page: verdict, epochs, arms, labels, differences.

Shows what the summary says; knows nothing about how it was worked out.
"""

from warmstart.report.arms import (
    COST_HEADERS,
    arm_names,
    cost_cells,
    ranking,
    score_cells,
    score_headers,
    score_text,
)
from warmstart.report.formats import (
    count,
    counted,
    duration,
    percent,
    points,
    points_range,
)
from warmstart.report.markup import (
    Html,
    Section,
    box,
    bullets,
    element,
    figure,
    folded,
    paragraph,
    table,
)
from warmstart.report.plots import draw_differences, draw_epochs, draw_labels
from warmstart.results.comparison import Comparison
from warmstart.results.summary import Difference, Race, Summary

_MOST_ROWS = 30  # a forest plot with more rows shows the largest subset alone
_MOST_EPOCHS = 10  # columns of a table by epoch


def finding_sections(comparison: Comparison, summary: Summary) -> list[Section]:
    """Return the sections with results, the verdict first."""
    sections = [
        verdict_section(comparison, summary),
        epochs_section(comparison, summary),
        arms_section(comparison, summary),
    ]
    if len(comparison.subsets) > 1 or summary.saved_over_best:
        sections.append(labels_section(comparison, summary))
    if summary.differences:
        sections.append(differences_section(comparison, summary))
    return sections


def verdict_section(comparison: Comparison, summary: Summary) -> Section:
    """Say in words what came out, and what to know before believing it."""
    pieces = [paragraph(summary.headline, css="headline"), paragraph(ranking(comparison, summary))]
    warm, labels = {a.name for a in comparison.arms if a.kind == "warm"}, comparison.subsets[-1]
    between = [d for d in summary.differences if d.labels == labels and {d.first, d.second} <= warm]
    if len(between) > 1:
        title = f"Which pretrained run to start from, with {counted(labels, 'label')}"
        pieces += [element("h3", title), _difference_table(between)]
    if summary.caveats:
        pieces.append(box(*summary.caveats))
    return Section(title="Verdict", pieces=pieces)


def epochs_section(comparison: Comparison, summary: Summary) -> Section:
    """Show accuracy by epoch, and warm against cold in the same terms."""
    pieces = _epoch_pieces(comparison, summary, comparison.subsets[-1])
    for labels in reversed(comparison.subsets[:-1]):
        title = f"The same with {counted(labels, 'label')}"
        pieces.append(folded(title, *_epoch_pieces(comparison, summary, labels)))
    return Section(title="Accuracy by epoch", pieces=pieces)


def _epoch_pieces(comparison: Comparison, summary: Summary, labels: int) -> list[Html]:
    drawing = draw_epochs(comparison, summary, labels)
    pieces = [figure(drawing, _epochs_caption(comparison))]
    races = [race for race in summary.races if race.labels == labels]
    if races:
        pieces.append(element("h3", "Warm against cold"))
        pieces.append(bullets(race.sentence for race in races))
        pieces.append(_race_table(races))
        pieces.append(_gap_table(races))
    return pieces


def _epochs_caption(comparison: Comparison) -> str:
    several = len(comparison.seeds) > 1
    line = f"mean over {len(comparison.seeds)} seeds" if several else "one seed"
    has_level = any(arm.kind == "baseline" for arm in comparison.arms)
    level = " The dashed line is the arm that has no epochs." if has_level else ""
    band = " Bands reach from the worst seed to the best." if several else ""
    return (
        f"Accuracy on the validation texts after each epoch, {line}.{band} A large hollow mark"
        " stands at the best epoch of the mean curve; the number beside a name is its accuracy"
        f" there.{level}"
    )


def _race_table(races: list[Race]) -> Html:
    headers = (
        "pair",
        "cold's best",
        "at epoch",
        "after",
        "warm is there at epoch",
        "after",
        "with pretraining",
    )
    rows = [
        (
            f"{race.warm} / {race.cold}",
            percent(race.cold_best),
            count(race.cold_best_epoch),
            duration(race.cold_best_s),
            "never" if race.reached_epoch is None else count(race.reached_epoch),
            _time(race.reached_s),
            _time(race.reached_with_pretraining_s),
        )
        for race in races
    ]
    return table(headers, rows)


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else duration(seconds)


def _gap_table(races: list[Race]) -> Html:
    """Show the gap at the first and last epoch and some between."""
    last = max(len(race.gaps) for race in races)
    shown = min(last, _MOST_EPOCHS)
    epochs = sorted({1 + place * (last - 1) // max(shown - 1, 1) for place in range(shown)})
    rows = [
        (
            f"{race.warm} − {race.cold}",
            *(points(race.gaps[e - 1]) if e <= len(race.gaps) else "–" for e in epochs),
            "open" if race.closed_epoch is None else f"closed from {race.closed_epoch}",
        )
        for race in races
    ]
    return table(("gap in points at epoch", *map(str, epochs), "at the end"), rows)


def arms_section(comparison: Comparison, summary: Summary) -> Section:
    """Show what every arm reached with all labels, and what it cost."""
    labels = comparison.subsets[-1]
    run = [arm for arm in comparison.arms if summary.score(arm.name, labels) is not None]
    names = arm_names(comparison)
    note = (
        f"With {counted(labels, 'label')}. ± is the standard deviation over"
        f" {counted(len(comparison.seeds), 'seed')}; the interval covers the choice of texts and"
        " seeds together; times are of one seed."
    )
    scores = [(names[arm.name], *score_cells(summary, arm, labels)) for arm in run]
    costs = [(names[arm.name], *cost_cells(summary, arm, labels)) for arm in run]
    pieces = [
        table(("arm", *score_headers(summary)), scores),
        table(("arm", *COST_HEADERS), costs),
        paragraph(note, css="soft"),
    ]
    return Section(title="The arms", pieces=pieces)


def labels_section(comparison: Comparison, summary: Summary) -> Section:
    """Show accuracy by number of labels and the labels that pretraining saved."""
    names = arm_names(comparison)
    rows = [
        (
            names[arm.name],
            *(
                "–"
                if (score := summary.score(arm.name, labels)) is None
                else score_text(score.judged)
                for labels in comparison.subsets
            ),
        )
        for arm in comparison.arms
    ]
    pieces: list[Html] = []
    if len(comparison.subsets) > 1:
        caption = (
            f"Accuracy on {summary.judge} by number of labels, on a logarithmic axis; bars are 95%"
            " intervals over texts and seeds together. Points are moved sideways a little so that"
            " no bar hides another."
        )
        pieces.append(figure(draw_labels(comparison, summary), caption))
    pieces.append(table(("accuracy by labels", *map(count, comparison.subsets)), rows))
    return Section(title="Accuracy by number of labels", pieces=pieces + _saved_pieces(summary))


def _saved_pieces(summary: Summary) -> list[Html]:
    if not summary.saved_over_best:
        return []
    cold = {(saved.warm, saved.labels): saved.text for saved in summary.saved_over_cold}
    rows = [
        (
            saved.warm,
            count(saved.labels),
            percent(saved.accuracy),
            saved.text,
            cold.get((saved.warm, saved.labels), "–"),
        )
        for saved in summary.saved_over_best
    ]
    headers = (
        "arm",
        "its labels",
        "its accuracy",
        "best without pretraining needs",
        "cold needs",
    )
    note = (
        "How many labels the best arm without pretraining needs for the same accuracy, read off"
        " between the measured sizes. “>” means that it never got there with the labels at hand."
    )
    return [element("h3", "Labels saved"), table(headers, rows), paragraph(note, css="soft")]


def differences_section(comparison: Comparison, summary: Summary) -> Section:
    """Show paired differences and the verdict on each, the largest subset first."""
    last = comparison.subsets[-1]
    subset = last if len(summary.differences) > _MOST_ROWS else None
    caption = (
        "The first arm's accuracy minus the second's on the same texts, with 95% intervals over"
        " texts and seeds together. Right of zero the first arm is better; a hollow mark says that"
        " the interval crosses zero, so no difference is shown."
    )
    pieces = [figure(draw_differences(comparison, summary, subset), caption)]
    for labels in reversed(comparison.subsets):
        found = [d for d in summary.differences if d.labels == labels]
        if labels == last:
            pieces.append(_difference_table(found))
        elif found:
            pieces.append(
                folded(f"Verdicts with {counted(labels, 'label')}", _difference_table(found))
            )
    return Section(title="Paired differences", pieces=pieces)


def _difference_table(found: list[Difference]) -> Html:
    rows = [
        (
            f"{d.first} − {d.second}",
            points(d.interval.mean),
            points_range(d.interval.low, d.interval.high),
            d.sentence,
        )
        for d in found
    ]
    return table(("pair", "points", "95% interval", "verdict"), rows, "lrrl")
