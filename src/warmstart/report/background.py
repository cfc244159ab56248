"""What stands behind a comparison, as sections of a page: tuning, data, leaks, settings, reading.

Knows nothing about how the figures were obtained.
"""

from collections import Counter

from warmstart.report.arms import arm_names, score_text
from warmstart.report.formats import count, counted, duration, percent, points
from warmstart.report.markup import Html, Section, bullets, element, folded, paragraph, table
from warmstart.results.comparison import Cell, Comparison, Split
from warmstart.results.summary import Summary


def background_sections(comparison: Comparison, summary: Summary) -> list[Section]:
    """Return the sections a careful reader wants before believing the results."""
    return [
        tuning_section(comparison),
        classes_section(comparison),
        leaks_section(comparison, summary),
        settings_section(comparison),
    ]


def tuning_section(comparison: Comparison) -> Section:
    """Show what was tried for each arm."""
    tuned = [cell for cell in comparison.cells if cell.trials]
    if not tuned:
        return Section(title="Tuning", pieces=["Nothing was tuned: every arm used one setting."])
    pieces = [paragraph(_budget(tuned))]
    for labels in reversed(comparison.subsets):
        grid = _trial_table(comparison, [cell for cell in tuned if cell.labels == labels])
        last = labels == comparison.subsets[-1]
        pieces.append(grid if last else folded(f"Tried with {counted(labels, 'label')}", grid))
    return Section(title="Tuning", pieces=pieces)


def _trial_table(comparison: Comparison, cells: list[Cell]) -> Html:
    names = arm_names(comparison)
    rows = [(names[c.arm], count(c.labels), str(c.seed), _trials(c)) for c in cells]
    return table(("arm", "labels", "seed", "tried, with validation accuracy"), rows, "lrrl")


def _budget(tuned: list[Cell]) -> str:
    """Say how many settings each arm could try, and whether that was the same for all."""
    most: dict[str, int] = {}
    for cell in tuned:
        most[cell.arm] = max(most.get(cell.arm, 0), len(cell.trials))
    if len(set(most.values())) == 1:
        each = f"Every arm had the same budget, {counted(next(iter(most.values())), 'trial')}"
    else:
        each = "Budgets differ: " + ", ".join(
            f"{arm} {counted(n, 'trial')}" for arm, n in most.items()
        )
    return (
        f"{each} for each number of labels, judged on validation alone. The setting used is bold."
    )


def _trials(cell: Cell) -> Html:
    parts = []
    for trial in cell.trials:
        text = f"{trial.setting}: {percent(trial.valid_accuracy)}"
        parts.append(element("b", text) if trial.setting == cell.setting else text)
    return Html.joined(parts, "; ")


def classes_section(comparison: Comparison) -> Section:
    """Show how often each class occurs."""
    splits = [s for s in (comparison.validation, comparison.test) if s is not None]
    total = sum(comparison.class_counts.values())
    rows = []
    for index, name in enumerate(comparison.class_names):
        number = comparison.class_counts.get(name, 0)
        share = percent(number / max(total, 1))
        rows.append((name, count(number), share, *(_occurrences(s, index) for s in splits)))
    rows.append(("all", count(total), "", *(count(len(split.classes)) for split in splits)))
    headers = ("class", "training texts", "share", *(split.name for split in splits))
    return Section(title="Class balance", pieces=[table(headers, rows)])


def _occurrences(split: Split, index: int) -> str:
    number = Counter(split.classes)[index]
    return f"{count(number)} ({percent(number / max(len(split.classes), 1))})"


def leaks_section(comparison: Comparison, summary: Summary) -> Section:
    """Show texts that files share, and the scores without them."""
    if not comparison.overlaps:
        none = "No text stands in two of the compared files."
        return Section(title="Shared texts", pieces=[none])
    rows = [(o.a, o.b, count(o.distinct), count(o.rows)) for o in comparison.overlaps]
    headers = ("file", "other file", "distinct texts in both", "rows of the other file")
    shared, judged = len(comparison.judge.shared), len(comparison.judge.classes)
    sentence = (
        f"{count(shared)} of the {count(judged)} {summary.judge} texts also"
        f" {'stands' if shared == 1 else 'stand'} in training or pretraining text."
    )
    pieces = [
        table(headers, rows, "llrr"),
        paragraph(sentence),
        *_clean_pieces(comparison, summary),
    ]
    return Section(title="Shared texts", pieces=pieces)


def _clean_pieces(comparison: Comparison, summary: Summary) -> list[Html]:
    labels, names = comparison.subsets[-1], arm_names(comparison)
    scores = [s for s in summary.scores if s.labels == labels]
    rows = [
        (
            names[s.arm],
            score_text(s.judged),
            score_text(s.clean),
            points(s.clean.accuracy - s.judged.accuracy),
        )
        for s in scores
        if s.clean is not None
    ]
    headers = ("arm", f"accuracy on {summary.judge}", "without shared texts", "change in points")
    return [table(headers, rows)] if rows else []


def settings_section(comparison: Comparison) -> Section:
    """Show files, seeds, subsets, and where each arm starts."""
    splits = [s for s in (comparison.validation, comparison.test) if s is not None]
    facts = [
        ("training file", comparison.train_file),
        *((f"{s.name} file", f"{s.file}, {counted(len(s.classes), 'text')}") for s in splits),
        ("labels used", ", ".join(map(count, comparison.subsets))),
        ("seeds", ", ".join(map(str, comparison.seeds))),
    ]
    names, labels = arm_names(comparison), comparison.subsets[-1]
    rows = []
    for arm in comparison.arms:
        used = sorted({cell.setting for cell in comparison.cells_of(arm.name, labels)})
        tokens = count(arm.pretrain_tokens) if arm.pretrain_tokens else "–"
        time = duration(arm.pretrain_s) if arm.pretrain_s else "–"
        rows.append((names[arm.name], arm.source or "–", tokens, time, "; ".join(used) or "–"))
    headers = ("arm", "starts from", "pretraining tokens", "pretraining time", "setting used")
    pieces = [table(("setting", "value"), facts, "ll"), table(headers, rows, "llrrl")]
    return Section(title="Settings", pieces=pieces + _note_pieces(comparison))


def _note_pieces(comparison: Comparison) -> list[Html]:
    if not comparison.notes:
        return []
    return [element("h3", "Notes"), bullets(comparison.notes)]


def reading_section(comparison: Comparison) -> Section:
    """Explain the words this page uses."""
    kinds = {arm.kind for arm in comparison.arms}
    words = {
        "warm": "warm: starts from the pretrained model and trains all of it on the labels.",
        "frozen": "frozen: the same start, but only the new classification head is trained.",
        "cold": "cold: the same model from random weights, trained on the labels alone.",
        "baseline": "tf-idf: counts of words and characters with logistic regression, no network.",
    }
    judging = (
        "Each model read the test texts once, after it was chosen; nothing was chosen on them."
        if comparison.test is not None
        else "There was no test: the figures are of the texts that also chose settings and epochs."
    )
    items = [text for kind, text in words.items() if kind in kinds]
    items += [
        judging,
        "A 95% interval says how far a figure may move with other texts and other seeds. When the"
        " interval of a difference crosses zero, the page says that no difference is shown.",
        "A point is one percentage point of accuracy.",
        "Macro F1 is the mean over classes of the harmonic mean of precision and recall; far below"
        " accuracy, it says that a rare class is missed.",
        "Subsets are nested: the texts of a smaller one are all in the larger ones.",
    ]
    return Section(title="How to read this page", pieces=[bullets(items)])
