"""A beam search that is watched: the same search, and a tree that fits together."""

import math
import runpy
from pathlib import Path

import pytest
from small_runs import TEXT, open_model

from warmstart.look.beam import BeamTree, watch_beam
from warmstart.settings.using import Beam
from warmstart.tasks.translate import TextTranslator


@pytest.fixture(scope="module")
def model() -> TextTranslator:
    return open_model("translate")  # type: ignore[return-value]


@pytest.fixture(params=[1, 2, 4])
def tree(request: pytest.FixtureRequest, model: TextTranslator) -> BeamTree:
    return watch_beam(model, TEXT, Beam(beam=request.param), min(2, request.param))


def test_watching_changes_nothing(tree: BeamTree, model: TextTranslator) -> None:
    (best,) = model.translate([TEXT], beam=tree.width, n_best=min(2, tree.width))
    assert [ending.text for ending in tree.endings] == [translation.text for translation in best]
    scores = [translation.score for translation in best]
    assert [ending.score for ending in tree.endings] == pytest.approx(scores)


def test_steps_fit_together(tree: BeamTree) -> None:
    kept = {()}
    for step in tree.steps:
        assert {candidate.path[:-1] for candidate in step} <= kept
        totals = [candidate.log_prob for candidate in step]
        assert totals == sorted(totals, reverse=True)
        assert len(step) <= 2 * tree.width
        kept = {candidate.path for candidate in step if candidate.status == "kept"}
        assert len(kept) <= tree.width


def test_the_best_way_is_in_the_tree(tree: BeamTree) -> None:
    best = tree.endings[0].path
    for number, step in enumerate(tree.steps[: len(best)], 1):
        (candidate,) = [c for c in step if tree.is_best(c)]
        assert candidate.path == best[:number]
        assert candidate.status == "kept"
    assert all(math.isfinite(ending.log_prob) for ending in tree.endings)


def test_the_figure_has_every_candidate(tree: BeamTree) -> None:
    drawn = [text.get_text() for axes in tree.draw().axes for text in axes.texts]
    assert sum(text.endswith("%") for text in drawn) >= sum(map(len, tree.steps))


def test_the_figure_of_the_table_by_hand() -> None:
    folder = Path(__file__).parents[2] / "website"
    tree = runpy.run_path(str(folder / "figures.py"))["beam_by_hand"]()
    assert tree.endings[0].text == "b"
    assert math.exp(tree.endings[0].log_prob) == pytest.approx(0.36)
    first, second = ([(c.piece, c.status) for c in step] for step in tree.steps)
    assert first == [("a", "kept"), ("b", "kept"), (".", "dropped")]
    assert [status for _, status in second] == ["ended", "ended", "dropped", "dropped"]
