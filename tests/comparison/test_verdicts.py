import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.comparison.labels_saved import labels_needed
from warmstart.comparison.results import Arm, Cell, Comparison, Split, SplitName
from warmstart.comparison.scores import outcome_of
from warmstart.comparison.summary import LabelsSaved, Summary
from warmstart.comparison.verdict import advise, summarise
from warmstart.evaluation.intervals import paired_estimate
from warmstart.formats import duration
from warmstart.formats import unsigned_points as points
from warmstart.tasks.fitting import Epoch

SUBSETS, SEEDS, NUM_TEXTS = (50, 200, 800), (1, 2, 3), 400
TRUTH = tuple(int(x) for x in np.random.default_rng(0).integers(0, 2, NUM_TEXTS))
ARMS = {
    "warm": Arm(
        name="warm",
        kind="warm",
        source="runs/a",
        parameters=10,
        trainable=10,
        pretrain_s=100.0,
        pretrain_tokens=5,
    ),
    "frozen": Arm(
        name="frozen",
        kind="frozen",
        source="runs/a",
        parameters=10,
        trainable=2,
        pretrain_s=100.0,
        pretrain_tokens=5,
    ),
    "cold": Arm(
        name="cold",
        kind="cold",
        source=None,
        parameters=10,
        trainable=10,
        pretrain_s=0.0,
        pretrain_tokens=0,
    ),
    "self": Arm(name="self", kind="self", source="runs/a", parameters=10, trainable=10),
    "tf-idf": Arm(
        name="tf-idf",
        kind="baseline",
        source=None,
        parameters=99,
        trainable=99,
        pretrain_s=0.0,
        pretrain_tokens=0,
    ),
}
SPLITS: tuple[SplitName, ...] = ("validation", "test")
ACCURACY = {
    "warm": (0.80, 0.85, 0.92),
    "frozen": (0.70, 0.72, 0.75),
    "cold": (0.60, 0.70, 0.82),
    "tf-idf": (0.65, 0.75, 0.80),
}


def answers(share: float) -> tuple[int, ...]:
    """Answer the first `share` of the texts right."""
    right = round(share * NUM_TEXTS)
    return tuple(c if place < right else 1 - c for place, c in enumerate(TRUTH))


def make_cell(
    arm: str, labels: int, seed: int, share: float, curve: Sequence[float], is_tested: bool
) -> Cell:
    epochs = tuple(
        Epoch(
            epoch=number,
            train_loss=1.0,
            valid_loss=1.0,
            valid_accuracy=height,
            valid_f1=height,
            elapsed_s=2.0 * number,
        )
        for number, height in enumerate(curve, 1)
    )
    return Cell(
        arm=arm,
        labels=labels,
        seed=seed,
        setting="",
        epochs=epochs,
        elapsed_s=10.0,
        predictions=dict.fromkeys(SPLITS[: 1 + is_tested], answers(share)),
    )


def make_comparison(
    accuracy: dict[str, tuple[float, ...]] = ACCURACY,
    curves: dict[str, Sequence[float]] | None = None,
    is_tested: bool = True,
    shared: tuple[int, ...] = (),
    num_truncated: int = 0,
) -> Comparison:
    curves = curves or {"warm": (0.8, 0.9), "frozen": (0.7, 0.7), "cold": (0.6, 0.8)}
    cells = [
        make_cell(arm, labels, seed, share + 0.005 * seed, curves.get(arm, ()), is_tested)
        for arm, shares in accuracy.items()
        for labels, share in zip(SUBSETS, shares, strict=True)
        for seed in (SEEDS if arm != "tf-idf" else (0,))
    ]
    splits = tuple(
        Split(name=name, file=f"{name}.tsv", classes=TRUTH, shared=shared)
        for name in SPLITS[: 1 + is_tested]
    )
    return Comparison(
        title="t",
        train_file="train.tsv",
        class_names=("bad", "good"),
        class_counts={"bad": 400, "good": 400},
        arms=tuple(ARMS[name] for name in accuracy),
        subsets=SUBSETS,
        seeds=SEEDS,
        cells=tuple(cells),
        tuned=(),
        splits=splits,
        overlaps=(),
        num_truncated=num_truncated,
        notes=(),
        attainable=None,
    )


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(make_comparison())


def test_a_summary_is_plain_json(summary: Summary) -> None:
    json.dumps(asdict(summary), allow_nan=False)


def test_every_arm_is_scored_at_every_subset(summary: Summary) -> None:
    assert len(summary.scores) == len(summary.costs) == len(ACCURACY) * len(SUBSETS)
    for row in summary.scores:
        wanted = ACCURACY[row.arm][SUBSETS.index(row.labels)]
        assert row.scored.accuracy == pytest.approx(wanted, abs=0.02)
        assert row.scored.lowest <= row.scored.accuracy <= row.scored.highest
        assert row.scored.interval.low <= row.scored.accuracy <= row.scored.interval.high
        assert row.clean is None
        assert (row.scored.spread == 0) == (row.scored.num_seeds == 1)


def test_cost_counts_pretraining_apart(summary: Summary) -> None:
    for cost in summary.costs:
        assert cost.train_s == 10
        assert cost.total_s - cost.train_s == ARMS[cost.arm].pretrain_s


def test_the_baseline_has_no_curve(summary: Summary) -> None:
    assert summary.curve("tf-idf", 800) is None
    curve = summary.curve("warm", 800)
    assert curve is not None
    assert (curve.best_epoch, curve.best.accuracy) == (2, pytest.approx(0.9))


def test_pretrained_arms_are_compared_with_the_others_at_every_subset(summary: Summary) -> None:
    pairs = {(d.first, d.second, d.labels) for d in summary.differences}
    opponents = {"warm": ("frozen", "cold", "tf-idf"), "frozen": ("cold", "tf-idf")}
    assert pairs == {
        (first, other, n)
        for first, others in opponents.items()
        for other in others
        for n in SUBSETS
    }
    assert all(d.outcome == "better" for d in summary.differences if d.first == "warm")
    assert "warm beats cold by 10.0 points (95% interval" in " ".join(summary.findings)
    assert (
        "to match warm with 50 labels, a model without pretraining"
        in " ".join(summary.findings).lower()
    )


def at_all_sizes(**accuracy: float) -> Comparison:
    """Return a comparison of four arms whose accuracies do not depend on the labels."""
    names = {name.replace("tfidf", "tf-idf"): (share,) * 3 for name, share in accuracy.items()}
    return make_comparison(names)


@pytest.mark.parametrize(
    ("accuracy", "arm", "reason"),
    [
        ({"frozen": 0.9, "tfidf": 0.85, "warm": 0.8, "cold": 0.75}, "frozen", "above tf-idf"),
        ({"warm": 0.9, "tfidf": 0.85, "frozen": 0.8, "cold": 0.75}, "warm", "above tf-idf"),
        ({"warm": 0.9, "cold": 0.85, "frozen": 0.8, "tfidf": 0.75}, "warm", "above cold"),
        ({"frozen": 0.9, "cold": 0.85, "warm": 0.8, "tfidf": 0.75}, "frozen", "above cold"),
        ({"tfidf": 0.9, "frozen": 0.85, "warm": 0.8, "cold": 0.75}, "tf-idf", "did not pay here"),
        ({"tfidf": 0.9, "cold": 0.85, "warm": 0.8, "frozen": 0.75}, "tf-idf", "did not pay here"),
        ({"cold": 0.9, "warm": 0.85, "frozen": 0.8, "tfidf": 0.75}, "cold", "did not pay here"),
        ({"cold": 0.9, "tfidf": 0.85, "frozen": 0.8, "warm": 0.75}, "cold", "did not pay here"),
        ({"warm": 0.9, "tfidf": 0.9, "frozen": 0.8, "cold": 0.7}, "tf-idf", "tf-idf is cheaper"),
        (
            {"frozen": 0.9, "cold": 0.9, "warm": 0.8, "tfidf": 0.7},
            "frozen",
            "no difference from cold",
        ),
        ({"warm": 0.9, "cold": 0.9, "tfidf": 0.9, "frozen": 0.7}, "tf-idf", "tf-idf is cheaper"),
    ],
)
def test_the_best_pretrained_arm_is_judged_whatever_the_order(
    accuracy: dict[str, float], arm: str, reason: str
) -> None:
    found = summarise(at_all_sizes(**accuracy))
    lead = max(("warm", "frozen"), key=accuracy.__getitem__)
    assert found.advice.arm == arm
    assert found.advice.sentence.startswith("Use ")
    assert reason in found.advice.sentence
    assert ("did not pay" in found.advice.sentence) == (reason == "did not pay here")
    assert {verdict.first for verdict in found.verdicts} == {lead}
    assert {verdict.second for verdict in found.verdicts} == {"cold", "tf-idf"}
    for verdict in found.verdicts:
        opponent = accuracy[verdict.second.replace("tf-idf", "tfidf")]
        ahead = (accuracy[lead] > opponent) - (accuracy[lead] < opponent)
        assert verdict.outcome == {1: "better", 0: "none", -1: "worse"}[ahead]
        assert verdict.sentence in " ".join(found.findings)
    assert {row.arm for row in found.saved_over_best} == {lead}


@pytest.mark.parametrize(
    ("p_value", "arm", "reason"),
    [(0.1, "warm", "likely, but not shown"), (0.3, "tf-idf", "cheaper")],
)
def test_a_likely_lead_is_taken_although_it_is_not_shown(
    p_value: float, arm: str, reason: str
) -> None:
    comparison = at_all_sizes(warm=0.9, tfidf=0.85, frozen=0.8, cold=0.75)
    found = summarise(comparison)
    verdicts = [replace(v, outcome="none", p_value=p_value) for v in found.verdicts]
    advice = advise(comparison, found.scores, verdicts)
    assert advice.arm == arm
    assert reason in advice.sentence


def test_the_arm_of_each_size_is_judged_there() -> None:
    found = summarise(make_comparison({**ACCURACY, "frozen": (0.85, 0.86, 0.87)}))
    assert {(v.first, v.labels) for v in found.verdicts} == {("warm", 800), ("frozen", 50)}
    assert "With 50 labels, frozen is the best of 2 pretrained arms on validation" in " ".join(
        found.findings
    )


def test_the_test_set_does_not_choose_the_arm_that_is_judged() -> None:
    one = make_comparison({**ACCURACY, "frozen": (0.99, 0.99, 0.99)})
    poor = answers(0.5)
    cells = [
        replace(c, predictions={**c.predictions, "validation": poor}) if c.arm == "frozen" else c
        for c in one.cells
    ]
    found = summarise(replace(one, cells=tuple(cells)))
    assert {verdict.first for verdict in found.verdicts} == {"warm"}


@pytest.mark.parametrize(
    ("names", "arm"),
    [(("warm", "tf-idf"), "warm"), (("warm", "frozen"), "warm"), (("cold", "tf-idf"), "cold")],
)
def test_arms_may_be_left_out(names: tuple[str, ...], arm: str) -> None:
    found = summarise(make_comparison({name: ACCURACY[name] for name in names}))
    assert found.advice.arm == arm
    assert {verdict.second for verdict in found.verdicts} <= set(names)


def narrow(gap: float) -> Comparison:
    """Return a comparison in which frozen leads cold by a gap, but for 10 texts."""
    one = at_all_sizes(warm=0.6, frozen=0.8, cold=0.8 - gap, tfidf=0.5)
    wrong = tuple(1 - c for c in TRUTH[:10])
    cells = [
        replace(cell, predictions={n: wrong + p[10:] for n, p in cell.predictions.items()})
        if cell.arm == "frozen"
        else cell
        for cell in one.cells
    ]
    return replace(one, cells=tuple(cells))


def test_the_verdicts_are_adjusted_for_their_number() -> None:
    found = summarise(narrow(gap=0.055))
    single = next(d for d in found.differences if (d.first, d.second) == ("frozen", "cold"))
    verdict = next(v for v in found.verdicts if v.second == "cold")
    assert (single.outcome, verdict.outcome) == ("better", "none")
    assert single.p_value < 0.05 < verdict.p_value
    wide, alone = re.findall(r"\(?(-?[\d.]+) to (-?[\d.]+)", verdict.sentence)
    assert float(wide[0]) <= 0 < float(alone[0])  # the interval shown first agrees with the verdict
    assert "wide enough for 4 verdicts to hold together" in verdict.sentence


def test_without_test_the_choice_of_the_arm_is_paid_for() -> None:
    tested = {v.second: v.p_value for v in summarise(narrow(gap=0.075)).verdicts}
    untested = replace(narrow(gap=0.075), splits=narrow(gap=0.075).splits[:1])
    assert {v.second: v.p_value for v in summarise(untested).verdicts}["cold"] > tested["cold"]


def test_labels_saved_counts_the_best_arm_without_pretraining_at_each_size(
    summary: Summary,
) -> None:
    best = {row.labels: row for row in summary.saved_over_best}
    cold = {row.labels: row for row in summary.saved_over_cold}
    assert best[50].unpretrained == ("cold", "tf-idf")
    needed = [int(row[50].needed.replace(",", "")) for row in (best, cold)]
    assert 200 < needed[0] < needed[1] < 800
    assert best[800].text == ">800"


def test_labels_saved_has_an_interval(summary: Summary) -> None:
    row = next(row for row in summary.saved_over_cold if row.labels == 50)
    low, needed, high = (
        int(n.strip(">≤").replace(",", "")) for n in (row.low, row.needed, row.high)
    )
    assert 200 < low < needed < high <= 800
    assert row.text == f"{row.needed} ({row.low} to {row.high})"
    assert f"needs {best_of(summary).needed} labels (95% interval" in " ".join(summary.findings)


def best_of(summary: Summary) -> LabelsSaved:
    return next(row for row in summary.saved_over_best if row.labels == 50)


def test_losing_is_said_plainly() -> None:
    beaten = summarise(make_comparison({**ACCURACY, "tf-idf": (0.9, 0.95, 0.99)}))
    assert "warm loses to tf-idf by" in " ".join(beaten.findings)
    assert beaten.advice.sentence.startswith("Use tf-idf: 99.0% on test with 800 labels, ")
    assert "pretraining did not pay here" in beaten.advice.sentence
    assert all(row.needed == "≤50" for row in beaten.saved_over_best if row.labels < 800)
    losses = [d for d in beaten.differences if d.second == "tf-idf"]
    assert {d.outcome for d in losses} == {"worse"}


@pytest.mark.parametrize(
    ("warm", "way"),
    [
        ((0.50, 0.60, 0.70), "warm is level with tf-idf at about 2,800)"),  # 9 points to go
        ((0.50, 0.60, 0.61), "many more labels (by this curve, more than 16,000)"),
        ((0.50, 0.70, 0.70), "hardly more labels (from 200 to 800 the gap did not shrink)"),
    ],
)
def test_what_may_change_the_advice_is_named(warm: tuple[float, ...], way: str) -> None:
    accuracy = {"warm": warm, "tf-idf": (0.8, 0.8, 0.8)}
    findings = " ".join(summarise(make_comparison(accuracy)).findings)
    assert way in findings
    assert "a longer pretraining (this one read 5 tokens" in findings
    assert "a public model (warmstart import" in findings


def test_a_won_comparison_needs_no_outlook(summary: Summary) -> None:
    assert "What may change this" not in " ".join(summary.findings)


def test_equal_arms_show_no_difference() -> None:
    tie = summarise(make_comparison({**ACCURACY, "cold": ACCURACY["warm"]}))
    found = next(d for d in tie.differences if d.second == "cold")
    assert found.outcome == "none"
    assert found.interval.mean == 0
    assert found.sentence.startswith("no difference is shown between warm and cold")
    assert "-0.0" not in found.sentence


def test_shared_texts_are_scored_apart_and_admitted() -> None:
    shared = tuple(range(200))  # which every arm answers right
    found = summarise(make_comparison(shared=shared))
    score = found.score("warm", 50)
    assert score is not None
    assert score.clean is not None
    assert score.clean.num_texts == 200
    assert score.clean.accuracy < score.scored.accuracy
    assert all(d.clean is not None for d in found.differences)
    assert any("200 of the 400 test texts" in caveat for caveat in found.caveats)


def test_a_lead_that_rests_on_shared_texts_is_called_so() -> None:
    shared = tuple(range(240, 400))  # all that cold answers wrong and warm right
    found = summarise(make_comparison(shared=shared))
    lead = next(d for d in found.differences if (d.second, d.labels) == ("cold", 800))
    assert lead.outcome == "better"
    assert "without shared texts, the 95% interval is −1.2 to 1.2 points" in lead.sentence


def test_one_seed_is_admitted() -> None:
    one = make_comparison()
    alone = replace(one, seeds=(1,), cells=tuple(c for c in one.cells if c.seed in (0, 1)))
    found = summarise(alone)
    assert "one seed" in found.caveats[0]
    assert {verdict.outcome for verdict in found.verdicts} == {"none"}
    assert "points above" not in found.advice.sentence
    assert "beats" not in " ".join(found.findings)


def test_without_test_the_figures_are_called_validation() -> None:
    found = summarise(make_comparison(is_tested=False))
    assert found.scored_split == "validation"
    assert "validation scores, cross-fitted" in found.caveats[0]
    assert all(row.scored == row.choosing for row in found.scores)
    assert any("chosen by the same scores" in caveat for caveat in found.caveats)
    assert not any("the same scores" in caveat for caveat in summarise(make_comparison()).caveats)


def test_several_warm_arms_meet_each_other_once() -> None:
    one = make_comparison()
    other = replace(ARMS["warm"], name="warm: b", source="runs/b")
    copies = [replace(cell, arm=other.name) for cell in one.cells if cell.arm == "warm"]
    both = replace(one, arms=(*one.arms, other), cells=(*one.cells, *copies), subsets=(800,))
    pairs = [(d.first, d.second) for d in summarise(both).differences]
    assert pairs.count(("warm", "warm: b")) == 1
    assert ("warm: b", "warm") not in pairs
    assert ("warm: b", "frozen") not in pairs  # frozen starts from another run


def test_the_better_of_two_pretrained_runs_is_named_in_the_findings() -> None:
    one = make_comparison()
    other = replace(ARMS["warm"], name="warm: b", source="runs/b", cold="cold")
    worse = [replace(cell, arm=other.name) for cell in one.cells if cell.arm == "tf-idf"]
    for arms in ((*one.arms, other), (other, *one.arms)):
        both = summarise(replace(one, arms=arms, cells=(*one.cells, *worse)))
        first = both.findings[0]
        assert first.startswith("With 800 labels, warm is the best of 3 pretrained arms on valid")
        assert "warm beats warm: b by " in first


def test_what_tfidf_reads_and_transformers_do_not_is_said() -> None:
    found = summarise(make_comparison(num_truncated=37))
    assert "tf-idf reads whole texts" in found.caveats[0]
    assert "only a part of 37 of the 400 test texts" in found.caveats[0]
    alone = summarise(make_comparison({"warm": ACCURACY["warm"]}, num_truncated=37))
    assert not any("whole texts" in caveat for caveat in alone.caveats)


def test_an_arm_meets_only_the_cold_arm_of_its_own_shape() -> None:
    one = make_comparison()
    other = replace(ARMS["cold"], name="cold: b")
    copies = [replace(cell, arm=other.name) for cell in one.cells if cell.arm == "cold"]
    arms = (*(replace(arm, cold="cold") if arm.source else arm for arm in one.arms), other)
    found = summarise(replace(one, arms=arms, cells=(*one.cells, *copies)))
    assert {d.second for d in found.differences} == {"frozen", "cold", "tf-idf"}
    assert {time.cold for time in found.times_to_accuracy} == {"cold"}


@pytest.mark.parametrize(
    ("warm", "cold", "reached", "closed", "words"),
    [
        ((0.8, 0.9), (0.6, 0.8), 1, None, "still 10.0 points ahead after epoch 2"),
        ((0.7, 0.8, 0.8), (0.6, 0.8, 0.8), 2, 2, "lead of up to 10.0 points is gone by epoch"),
        ((0.6, 0.7), (0.6, 0.8), None, 1, "never reaches cold's best (80.0%, epoch 2)"),
        ((0.9, 0.7), (0.6, 0.8), 1, 2, "cold ends 10.0 points ahead"),
        (
            (0.9,),
            (0.6, 0.8),
            1,
            None,
            "after 2.0 s (1 min 42 s including pretraining) instead of 4.0 s",
        ),
    ],
)
def test_when_warm_reaches_the_best_of_cold(
    warm: Sequence[float],
    cold: Sequence[float],
    reached: int | None,
    closed: int | None,
    words: str,
) -> None:
    time = summarise(make_comparison(curves={"warm": warm, "cold": cold})).times_to_accuracy[0]
    assert (time.reached_epoch, time.closed_epoch) == (reached, closed)
    assert len(time.gaps) == min(len(warm), len(cold))
    assert words in time.sentence
    if time.reached_s is not None:
        assert time.reached_with_pretraining_s == time.reached_s + 100


@given(st.floats(0.61, 0.89))
def test_labels_needed_lie_where_the_curve_crosses(target: float) -> None:
    reached = {100: 0.6, 400: 0.7, 1600: 0.9}
    needed = int(labels_needed(target, reached).replace(",", ""))
    errors = np.log(1 - np.array(list(reached.values())))
    curve = 1 - np.exp(np.interp(np.log(needed), np.log(list(reached)), errors))
    assert curve == pytest.approx(target, abs=0.003)


def test_errors_that_fall_with_a_power_of_the_labels_are_interpolated_truly() -> None:
    reached = {size: 1 - size**-0.5 for size in (250, 1_000)}
    assert labels_needed(1 - 500**-0.5, reached) == "500"


def test_labels_needed_outside_what_was_measured() -> None:
    reached = {100: 0.6, 400: 0.8, 1600: 0.9}
    assert labels_needed(0.6, reached) == "≤100"
    assert labels_needed(0.9, reached) == "1,600"
    assert labels_needed(0.91, reached) == ">1,600"
    assert labels_needed(1.0, {100: 0.6, 400: 1.0}) == "400"


def test_between_sizes_that_are_far_apart_a_bracket_is_given() -> None:
    reached = {100: 0.6, 5_000: 0.9}
    assert labels_needed(0.7, reached) == "100 to 5,000"
    assert labels_needed(0.7, reached, "low") == "100"
    assert labels_needed(0.7, reached, "high") == "5,000"
    one = make_comparison()
    sizes = {50: 50, 200: 300, 800: 1_600}
    cells = [replace(cell, labels=sizes[cell.labels]) for cell in one.cells]
    far = summarise(replace(one, subsets=tuple(sizes.values()), cells=tuple(cells)))
    saved = far.saved_over_best[0]
    assert (saved.needed, saved.size_to_add) == ("300 to 1,600", 690)
    assert "300 to 1,600 labels; --labels 690 in between would tell" in " ".join(far.findings)


@pytest.mark.parametrize(("num_seeds", "outcome"), [(1, "none"), (2, "better"), (3, "better")])
def test_one_seed_shows_nothing(num_seeds: int, outcome: str) -> None:
    answers = np.arange(400) < 300
    estimate = paired_estimate(np.tile(answers, (num_seeds, 1)), np.zeros((num_seeds, 400)))
    assert outcome_of(estimate) == outcome
    assert outcome_of(paired_estimate(np.zeros((2, 4)), np.zeros((2, 4)))) == "none"


def test_figures_are_written_for_people() -> None:
    assert [points(x) for x in (0.041, -0.0004, -0.012)] == ["4.1", "0.0", "−1.2"]
    assert [duration(x) for x in (3.21, 45, 600, 9000)] == [
        "3.2 s",
        "45 s",
        "10 min 00 s",
        "2 h 30 min",
    ]


@pytest.mark.parametrize(
    ("accuracy", "advised"),
    [
        ((0.80, 0.85, 0.97), "self"),
        ((0.80, 0.85, 0.925), "warm"),  # ahead, but no difference is shown
        ((0.99, 0.99, 0.85), "warm"),
    ],
)
@pytest.mark.parametrize("is_tested", [True, False])
def test_a_self_trained_model_is_advised_only_where_it_beats_every_other(
    accuracy: tuple[float, ...], advised: str, is_tested: bool
) -> None:
    scores = {"warm": ACCURACY["warm"], "self": accuracy, "tf-idf": ACCURACY["tf-idf"]}
    summary = summarise(make_comparison(scores, is_tested=is_tested))
    assert summary.advice.arm == advised
    judged = {(v.first, v.second, v.labels) for v in summary.verdicts}
    for labels in (SUBSETS[0], SUBSETS[-1]):
        assert {("self", "warm", labels), ("self", "tf-idf", labels)} <= judged
        assert ("warm", "tf-idf", labels) in judged
        assert ("warm", "self", labels) not in judged
    without = {name: shares for name, shares in scores.items() if name != "self"}
    usual = summarise(make_comparison(without, is_tested=is_tested)).advice
    assert summary.advice == usual or advised == "self"
