"""What the intervals of a comparison do not cover is said, and what can be pooled into them is."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warmstart.comparison.results import ArmKind, Cell, Comparison, Trial, pool_pretrainings
from warmstart.comparison.summary import Summary
from warmstart.comparison.verdict import summarise
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun, recipes_of

Built = tuple[Comparison, Summary]
EQUAL: dict[ArmKind, tuple[float, float, float]] = dict.fromkeys(
    ("warm", "frozen", "cold", "baseline"), (0.8, 0.8, 1.0)
)
TWO_RUNS = (("warm: a", "warm"), ("warm: b", "warm"), ("cold", "cold"), ("tf-idf", "baseline"))


def change(comparison: Comparison, edit: Callable[[Cell], Cell]) -> Summary:
    return summarise(replace(comparison, cells=tuple(map(edit, comparison.cells))))


def said(summary: Summary, words: str) -> bool:
    return any(words in caveat for caveat in summary.caveats)


def test_the_power_stands_beside_a_difference_that_is_not_shown(
    builder: Callable[..., Built],
) -> None:
    _, equal = builder(skill=EQUAL)
    assert {verdict.outcome for verdict in equal.verdicts} == {"none"}
    assert said(equal, "3: 39%")
    _, apart = builder(skill={**EQUAL, "warm": (0.99, 0.99, 1.0)}, num_texts=800)
    assert {verdict.outcome for verdict in apart.verdicts} == {"better"}
    assert not said(apart, "does not mean that arms are equal")


def test_the_worst_seed_and_the_seeds_below_the_baseline_are_named(
    builder: Callable[..., Built],
) -> None:
    comparison, _ = builder(skill={**EQUAL, "warm": (0.97, 0.97, 1.0)})
    truth = comparison.scored_split.classes
    wrong = tuple(1 - answer for answer in truth)

    def fail(cell: Cell) -> Cell:
        if (cell.arm, cell.labels, cell.seed) != ("warm", 1600, 1):
            return cell
        return replace(cell, predictions={**cell.predictions, "test": wrong})

    first = change(comparison, fail).findings[0]
    assert "The worst model of warm has 0.0%; 1 of 3 seeds of warm is below tf-idf." in first


def test_one_pretraining_is_admitted_in_every_report(built: Built) -> None:
    assert said(built[1], "One pretraining stands for its recipe")


@pytest.mark.parametrize(("num_labelled", "is_said"), [(1600, True), (2000, False)])
def test_seeds_that_share_their_training_texts_are_admitted(
    num_labelled: int, is_said: bool, built: Built
) -> None:
    summary = summarise(replace(built[0], num_labelled=num_labelled))
    assert said(summary, "every seed has the same training texts") == is_said


def test_labels_that_only_choose_are_counted(built: Built) -> None:
    assert said(summarise(replace(built[0], num_choosing=500)), "500 more labels, of --valid")
    assert not said(built[1], "more labels")


@pytest.mark.parametrize("is_tuned", [True, False])
def test_where_no_text_validates_the_tuning_chooses_the_arm(is_tuned: bool, built: Built) -> None:
    comparison, _ = built
    tuned = [
        replace(t, trials=(Trial(setting="", valid_accuracy=0.9 if t.arm == "frozen" else 0.5),))
        for t in comparison.tuned
    ]
    refitted = replace(
        comparison, splits=comparison.splits[1:], tuned=tuple(tuned) if is_tuned else ()
    )
    summary = summarise(refitted)
    assert refitted.is_refitted
    assert {v.first for v in summary.verdicts} == {"frozen" if is_tuned else "warm"}
    reason = "on labels set aside" if is_tuned else "the first is judged"
    assert reason in summary.findings[0]


def two_runs(builder: Callable[..., Built]) -> Comparison:
    comparison, _ = builder(arms=TWO_RUNS)
    arms = tuple(
        replace(arm, source=f"runs/{arm.name[-1]}") if arm.source else arm
        for arm in comparison.arms
    )
    return replace(comparison, arms=arms)


def test_runs_of_one_recipe_are_one_arm_with_a_wider_interval(
    builder: Callable[..., Built],
) -> None:
    comparison = two_runs(builder)
    pooled = pool_pretrainings(comparison, {"runs/a": "one", "runs/b": "one"})
    assert [arm.name for arm in pooled.arms] == ["warm: a", "cold", "tf-idf"]
    assert pooled.arm("warm: a").pretrainings == ("runs/a", "runs/b")
    assert len(pooled.cells) == len(comparison.cells)
    summary = summarise(pooled)
    score, alone = (s.score("warm: a", 1600) for s in (summary, summarise(comparison)))
    assert score is not None
    assert alone is not None
    assert score.scored.num_seeds == alone.scored.num_seeds == 3
    lead = next(d for d in summary.differences if (d.second, d.labels) == ("cold", 1600))
    assert lead.num_seeds == 3
    assert not said(summary, "One pretraining stands")


def test_runs_of_two_recipes_stay_two_arms(builder: Callable[..., Built]) -> None:
    comparison = two_runs(builder)
    assert pool_pretrainings(comparison, {"runs/a": "one", "runs/b": "two"}) == comparison


def run(name: str, **settings: Any) -> SavedRun:
    path = Path(name)
    folder = RunFolder(Path(*path.parts[:2]))
    config = {"settings": settings, "model": {"width": 8}}
    return cast(
        SavedRun, SimpleNamespace(path=path, folder=folder, settings=settings, config=config)
    )


@pytest.mark.parametrize(
    ("runs", "num_recipes"),
    [
        ((run("runs/a", seed=0, steps=9), run("runs/b", seed=1, steps=9)), 1),
        ((run("runs/a", seed=0, steps=9), run("runs/b", seed=1, steps=8)), 2),
        ((run("runs/a", seed=0), run("runs/b", seed=0)), 2),  # twice the same
        ((run("runs/a", seed=0), run("runs/b/checkpoints/step-5", seed=1)), 2),
        ((run("runs/a"), run("runs/b")), 2),  # imported
    ],
)
def test_a_recipe_is_everything_but_the_seed(runs: Sequence[SavedRun], num_recipes: int) -> None:
    recipes = recipes_of(runs)
    assert len(set(recipes.values())) == num_recipes
    json.dumps(recipes)
