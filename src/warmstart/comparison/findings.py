"""What a report says of a comparison: what was gained, which classes are missed, what to doubt."""

from collections.abc import Iterator, Sequence

from warmstart.comparison.results import Comparison
from warmstart.comparison.scores import compare_pair, rank_pretrained, strongest_arm
from warmstart.comparison.summary import ArmScore, LabelsSaved, Verdict
from warmstart.formats import percent, quantity
from warmstart.recipes.advice import FEW_TOKENS

# Percent of comparisons that show 3 points between 85 and 82%, by seeds: 2,000 texts, seeds that
# spread by 1 point; by benchmarks/coverage.py.
POWER = {2: 14, 3: 39, 5: 83, 10: 100}
MOST_NAMED = 5  # classes in one sentence
FARTHEST = 20  # times the labels measured; what a curve says beyond is a guess


def findings(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    verdicts: Sequence[Verdict],
    saved: Sequence[LabelsSaved],
) -> Iterator[str]:
    """Say what pretraining gained with all labels and with the fewest, and what it saved."""
    fewest, most = comparison.subsets[0], comparison.subsets[-1]
    for labels in sorted({fewest, most}, reverse=True):
        of_size = [verdict for verdict in verdicts if verdict.labels == labels]
        if of_size:
            chosen = _describe_choice(comparison, scores, labels)
            clauses = "; ".join(verdict.sentence for verdict in of_size)
            seeds = _describe_seeds(comparison, scores, of_size[0].first, labels)
            yield f"With {quantity(labels, 'label')}, {chosen}{clauses}.{seeds}"
    for row in saved:
        if row.labels == fewest < most:
            interval = f" (95% interval {_write_labels(row.low)} to {_write_labels(row.high)})"
            add = f"; --labels {row.size_to_add} in between would tell" if row.size_to_add else ""
            yield (
                f"To match {row.arm} with {quantity(fewest, 'label')}, a model without pretraining "
                f"({' or '.join(row.unpretrained)}) needs {_write_labels(row.needed)} labels"
                f"{interval if row.has_interval else ''}{add}."
            )


def _describe_seeds(
    comparison: Comparison, scores: Sequence[ArmScore], arm: str, labels: int
) -> str:
    """Name the worst model of an arm, and say how many seeds are below the arm to beat."""
    score = next(row.scored for row in scores if (row.arm, row.labels) == (arm, labels))
    opponents = comparison.opponents(arm)
    candidates = [name for name in opponents if name in comparison.baselines] or opponents
    strongest = strongest_arm(scores, labels, candidates)
    difference = compare_pair(comparison, arm, strongest, labels) if strongest else None
    if difference is None or difference.num_seeds < 2:
        return ""
    below = f"{difference.num_below} of {difference.num_seeds} seeds of {arm} "
    below += f"{'is' if difference.num_below == 1 else 'are'} {comparison.scale.behind} {strongest}"
    return f" The worst model of {arm} has {comparison.scale.write(score.lowest)}; {below}."


def describe_classes(comparison: Comparison, scores: Sequence[ArmScore], arm: str) -> Iterator[str]:
    """Give macro F1 where classes are skewed; name classes that the advised arm never predicts."""
    split, labels = comparison.scored_split, comparison.subsets[-1]
    if not comparison.class_names or not isinstance(split.classes[0], int):
        return  # an answer is no class
    f1 = {row.arm: row.scored.f1 for row in scores if row.labels == labels}
    if split.is_skewed:
        figures = ", ".join(f"{name} {percent(value)}" for name, value in f1.items() if value)
        yield (
            "The classes are skewed: always predicting the most frequent one gives "
            f"{percent(split.majority_share)}. Macro F1 with {quantity(labels, 'label')}: "
            f"{figures}."
        )
    cells = comparison.cells_of(arm, labels)
    predicted = {answer for cell in cells for answer in comparison.predictions(cell)}
    missed = [comparison.class_names[number] for number in sorted({*split.classes} - predicted)]
    if missed:
        more = f" and {len(missed) - MOST_NAMED:,} more" if len(missed) > MOST_NAMED else ""
        names = ", ".join(f"'{name}'" for name in missed[:MOST_NAMED])
        yield (
            f"{arm} never predicts {names}{more}, which the texts to predict do have. More labels "
            "of rare classes help, as do --balance weights and --select f1."
        )


def outlook(comparison: Comparison, scores: Sequence[ArmScore], arm: str) -> Iterator[str]:
    """Say what may change the advice to use a baseline: more text, more labels, another model."""
    ranked = rank_pretrained(comparison, scores, comparison.subsets[-1])
    if not ranked or arm not in comparison.baselines:
        return
    source, tokens = comparison.arm(ranked[0]).source, comparison.arm(ranked[0]).pretrain_tokens
    ways = [_more_labels(comparison, scores, ranked[0], arm)]
    if not tokens:
        further = f"warmstart pretrain TEXTS --from {source}"
        ways.insert(0, f"pretraining {source} further on text like this ({further})")
    else:
        if tokens < FEW_TOKENS:
            ways.insert(
                0,
                f"a longer pretraining (this one read {tokens:,} tokens; on film reviews a "
                "Transformer passed lsa between 100 and 200 million)",
            )
        ways.append("a public model (warmstart import, then compare --from)")
    yield f"What may change this: {'; '.join(ways)}."


def _more_labels(
    comparison: Comparison, scores: Sequence[ArmScore], pretrained: str, baseline: str
) -> str:
    """Say how many labels may bring a pretrained arm level: gaps shrink with their logarithm."""
    at = {(row.arm, row.labels): row.scored.accuracy for row in scores}
    gaps = {
        size: at[pretrained, size] - at[baseline, size]
        for size in comparison.subsets
        if (pretrained, size) in at and (baseline, size) in at
    }
    if len(gaps) < 2:
        return "more labels (--labels with two sizes would show how many)"
    (few, first), (many, last) = list(gaps.items())[-2:]
    if last >= 0:
        return "more labels, or more texts to score on"
    if last <= first:
        return f"hardly more labels (from {few:,} to {many:,} the gap did not shrink)"
    times = (many / few) ** (-last / (last - first))
    if times > FARTHEST:
        return f"many more labels (by this curve, more than {FARTHEST * many:,})"
    level = int(float(f"{many * times:.1e}"))
    return f"more labels (by this curve, {pretrained} is level with {baseline} at about {level:,})"


def _describe_choice(comparison: Comparison, scores: Sequence[ArmScore], labels: int) -> str:
    """Name the pretrained arm that is judged, where there were several."""
    ranked = rank_pretrained(comparison, scores, labels)
    if len(ranked) == 1:
        return ""
    if comparison.is_refitted and not comparison.is_tuned:
        return f"of {len(ranked)} pretrained arms the first is judged, as no label chose one: "
    return f"{ranked[0]} is the best of {len(ranked)} pretrained arms {comparison.chosen_on}: "


def _write_labels(labels: str) -> str:
    return labels.replace(">", "more than ").replace("≤", "at most ")


def caveats(comparison: Comparison, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what a reader must know before trusting the scores."""
    if comparison.left_out:
        yield (
            f"Less was trained than was asked for ({comparison.left_out}): with more time, scores "
            "and verdicts may differ."
        )
    split = comparison.scored_split
    num_texts = f"{len(split.classes):,} {'' if split.num_folds else f'{split.name} '}texts"
    if split.num_folds:
        yield (
            f"These are scores of {split.num_folds}-fold cross-validation: each text is scored by "
            "models that were trained and chosen without its fold. The models of two folds share "
            "training texts, so the intervals are those of the cross-validated estimate; with "
            "other training texts, scores may vary somewhat more."
        )
    elif not comparison.has_test:
        yield (
            "There is no test file: these are validation scores, cross-fitted. Each half of the "
            "texts is scored by models whose setting and epoch were chosen on the other half."
        )
    if comparison.final_labels and not split.num_folds:
        yield (
            "The model of the arm to use is trained once more on "
            f"{quantity(comparison.final_labels, 'label')}, those that were set aside among them. "
            f"Its scores are those of models trained on {comparison.scored_labels:,}."
        )
    if not comparison.has_test and len(comparison.pretrained) > 1:
        yield (
            "The arm that leads was chosen by the same scores, which flatters its lead: the best "
            "of 2 to 8 equal arms leads by 0.2 to 1.8 points of accuracy. The verdicts allow for "
            "this, the numbers do not; with --test they are free of it."
        )
    if comparison.num_choosing:
        yield (
            f"Settings, and the arm that is judged, were chosen on {comparison.num_choosing:,} "
            "more labels, of --valid, which the numbers of labels do not count."
        )
    baselines = comparison.arm_names("baseline")
    if comparison.num_truncated and baselines:
        verb = "reads" if len(baselines) == 1 else "read"
        yield (
            f"{' and '.join(baselines)} {verb} whole texts; the Transformers "
            f"read only a part of {comparison.num_truncated:,} of the {num_texts}."
        )
    if split.shared:
        yield (
            f"{len(split.shared):,} of the {num_texts} also "
            f"{'occurs' if len(split.shared) == 1 else 'occur'}, exactly or nearly, in other data: "
            "see the scores without them."
        )
    yield from _caveats_of_intervals(comparison, verdicts)


def _caveats_of_intervals(comparison: Comparison, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what the intervals do not cover, and how much they can show."""
    num_seeds = len(comparison.seeds)
    if num_seeds == 1:
        yield (
            "Only one seed was run: intervals cover the choice of texts, not that of the seed, so "
            "no difference is shown. Give at least three --seeds."
        )
    elif any(verdict.outcome == "none" for verdict in verdicts):
        powers = ", ".join(f"{num}: {power}%" for num, power in POWER.items())
        yield (
            "“No difference is shown” does not mean that arms are equal. In simulations, a true "
            f"difference of 3 points of accuracy was shown in this share of comparisons, by number "
            f"of seeds: {powers}. Here there are {num_seeds}."
        )
    single = [a.name for a in comparison.arms if a.name in comparison.pretrained]
    single = [name for name in single if not comparison.arm(name).pretrainings]
    if single:
        yield (
            "One pretraining stands for its recipe: that another one would score differently "
            "(standard deviation 0.3 to 0.9 points of accuracy, more with few labels) is not in "
            "the intervals. Several --from that differ only in --seed put it there."
        )
    if comparison.num_labelled == comparison.subsets[-1] and num_seeds > 1:
        yield (
            f"With all {quantity(comparison.subsets[-1], 'label')}, every seed has the same "
            "training texts: there the intervals do not cover the choice of these texts, and "
            "hold for them alone."
        )
