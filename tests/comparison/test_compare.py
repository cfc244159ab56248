import html
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import (
    MACHINE,
    TINY,
    World,
    read,
    read_labelled_rows,
    refuse,
    run,
    succeed,
    write_labelled,
)
from faulty_training import Fault, put_faults, spoil_gradient, spoil_loss, spoil_moment
from warmstart.comparison.arms import TrainedModel, train_stably
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.data.splits import LabelPool, nested_rows, selections
from warmstart.errors import DamagedStateError, DivergedError, WarmstartError
from warmstart.tasks.fitting import build_trainer
from warmstart.training.trainer import Trainer

OPTIONS = f"--epochs 2 --trials 2 {MACHINE}"
COMMAND = f"compare --from {{base}} --train {{train}} --valid {{valid}} {OPTIONS}"
ARMS = ["warm", "frozen", "cold", "lsa", "tf-idf"]
TRAINED = ("warm", "cold")  # step by step; the others are solved
TUNED = (*TRAINED, "tf-idf")  # the others choose their setting inside the training labels

Key = tuple[str, int, int]


@pytest.fixture(scope="module")
def compared(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared") / "out"
    succeed(
        f"{COMMAND} --test {{test}} --labels 12,24,all --seeds 0,1 -o {folder}",
        **vars(world),
        base=base,
    )
    return folder


def cells_of(folder: Path) -> dict[Key, dict[str, Any]]:
    """Return every cell without what a clock measured."""
    cells = {}
    for cell in read(folder / "results.json")["cells"]:
        for epoch in cell["epochs"]:
            del epoch["elapsed_s"]
        del cell["elapsed_s"]
        cells[cell["arm"], cell["labels"], cell["seed"]] = cell
    return cells


def test_results_hold_every_arm_subset_seed_and_epoch(compared: Path) -> None:
    cells = cells_of(compared)
    assert set(cells) == {(arm, n, seed) for arm in ARMS for n in (12, 24, 48) for seed in (0, 1)}
    for (arm, _, _), cell in cells.items():
        assert [e["epoch"] for e in cell["epochs"]] == ([1, 2] if arm in TRAINED else [])
        assert {name: len(rows) for name, rows in cell["predictions"].items()} == {
            "validation": 24,
            "test": 24,
        }


def test_every_arm_has_the_same_tuning_budget(compared: Path) -> None:
    tuned = {(row["arm"], row["labels"]): row for row in read(compared / "results.json")["tuned"]}
    assert tuned.keys() == {(arm, labels) for arm in ARMS for labels in (12, 24, 48)}
    for (arm, _), row in tuned.items():
        if arm in TUNED:
            assert len({trial["setting"] for trial in row["trials"]}) == 2
            assert set(row["settings"]) < {trial["setting"] for trial in row["trials"]}
        else:
            assert len(row["trials"]) == 1  # to be compared with the others
    for (arm, labels, _), cell in cells_of(compared).items():
        if arm in TUNED:
            assert [cell["setting"]] == tuned[arm, labels]["settings"]


def test_the_report_and_its_figures_are_written(compared: Path) -> None:
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert 'src="http' not in page
    for name in ("epochs", "labels", "differences"):
        assert (compared / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (compared / f"{name}.svg").read_text(encoding="utf-8")


def test_a_cell_does_not_depend_on_what_ran_before_it(
    compared: Path, world: World, base: Path, here: Path
) -> None:
    command = f"{COMMAND} --test {{test}} --labels 24 --seeds 0 -o alone"
    succeed(command, **vars(world), base=base)
    among, alone = cells_of(compared), cells_of(here / "alone")
    assert len(alone) == len(ARMS)
    for key, cell in alone.items():
        assert cell == among[key]


def test_test_data_is_never_used_to_choose(
    compared: Path, world: World, base: Path, here: Path
) -> None:
    flipped = {"positive": "negative", "negative": "positive"}
    rows = [(flipped[label], text.upper()) for label, text in read_labelled_rows(world.test)[:10]]
    write_labelled(here / "other.tsv", rows)
    command = f"{COMMAND} --labels 24 --seeds 0,1 -o other --test other.tsv"
    succeed(command, **vars(world), base=base)
    succeed(f"{COMMAND} --labels 24 --seeds 0,1 -o none", **vars(world), base=base)
    first = cells_of(compared)
    for key, cell in cells_of(here / "other").items():
        for chosen in ("setting", "epochs"):
            assert cell[chosen] == first[key][chosen]
        assert cell["predictions"]["validation"] == first[key]["predictions"]["validation"]
    tried = [row["trials"] for row in _tuned(compared) if row["labels"] == 24]
    for name in ("other", "none"):
        assert [row["trials"] for row in _tuned(here / name)] == tried


def _tuned(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(folder / "results.json")["tuned"]
    return rows


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60))
def test_no_text_is_scored_by_a_model_that_it_helped_to_choose(classes: list[int]) -> None:
    folds = selections(classes, has_test=False)
    predicted = [row for fold in folds for row in fold.predicted]
    assert sorted(predicted) == list(range(len(classes)))
    for fold in folds:
        assert set(fold.selecting).isdisjoint(fold.predicted)
        assert len(fold.selecting) >= len(classes) // 2


def test_with_a_test_set_all_validation_texts_choose() -> None:
    (fold,) = selections([0, 1, 1], has_test=True)
    assert list(fold.selecting) == list(fold.predicted) == [0, 1, 2]


@pytest.mark.parametrize(
    ("arms", "names"), [("warm,tfidf", ["warm", "tf-idf"]), ("cold,frozen", ["frozen", "cold"])]
)
def test_arms_can_be_left_out(
    arms: str, names: list[str], world: World, base: Path, here: Path
) -> None:
    command = f"{COMMAND} --trials 1 --seeds 0 --arms {arms} -o out"
    ran = succeed(command, **vars(world), base=base)
    result = read(here / "out/results.json")
    assert [arm["name"] for arm in result["arms"]] == names
    assert {cell["arm"] for cell in result["cells"]} == set(names)
    assert ran.out.startswith("Use ")
    page = (here / "out/report.html").read_text(encoding="utf-8")
    assert "<h2>Where " in page


@pytest.mark.parametrize(
    ("arms", "complaint"),
    [("warm", "at least two"), ("warm,warm", "at least two"), ("warm,tf-idf", "'tfidf'")],
)
def test_arms_that_make_no_comparison_are_refused(
    arms: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    ran = run(f"{COMMAND} --arms {arms} -o out", **vars(world), base=base)
    assert ran.code == 2
    assert complaint in ran.said
    assert not (here / "out").exists()


def test_without_a_test_the_scores_are_called_validation_scores(
    world: World, base: Path, here: Path
) -> None:
    options = OPTIONS.replace("--trials 2", "--trials 1")
    ran = succeed(f"{COMMAND} {options} --seeds 0 -o out", **vars(world), base=base)
    assert "validation scores, cross-fitted" in ran.out
    assert "validation scores, cross-fitted" in (here / "out/report.html").read_text("utf-8")
    (split,) = read(here / "out/results.json")["splits"]
    assert split["name"] == "validation"


def test_texts_shared_between_splits_or_with_pretraining_are_reported(
    world: World, base: Path, here: Path
) -> None:
    held = read_labelled_rows(world.test)[:6]
    trained = read_labelled_rows(world.train)[:2]
    pretrained = world.texts.read_text(encoding="utf-8").splitlines()
    leaked = [("positive", text) for text in pretrained[:20]]
    valid = read_labelled_rows(world.valid)[0]
    near = (trained[0][0], " ".join(text for _, text in read_labelled_rows(world.train)[:3]))
    rows = [*trained, *held, *leaked, (valid[0], f"{valid[1].upper()} <br />"), near]
    write_labelled(here / "test.tsv", rows)
    places = {**vars(world), "base": base, "test": "test.tsv"}
    ran = succeed(f"{COMMAND} --seeds 0 --test {{test}} -o out", **places)
    result = read(here / "out/results.json")
    between = {(found["a"], found["b"]): found["rows"] for found in result["overlaps"]}
    assert between["train", "test"] == 2
    assert 15 <= between["pretraining of base", "test"] <= 20
    assert between["pretraining of base", "validation"] == 0
    shared = set(result["splits"][-1]["shared"])
    assert {0, 1} <= shared
    assert shared.isdisjoint(range(2, 8))
    assert len(rows) - 2 in shared  # settings are chosen by validation
    assert between["validation", "test"] == 1
    assert len(rows) - 1 in shared
    assert len(shared) == 4 + between["pretraining of base", "test"]
    assert "test" in ran.out
    (overlap,) = (o for o in result["overlaps"] if (o["a"], o["b"]) == ("train", "test"))
    assert overlap["near"] == 1
    shown = (here / "out/report.html").read_text(encoding="utf-8")
    assert overlap["near_copy"]["text"][:60] in html.unescape(shown)


@pytest.mark.parametrize(("other", "num_arms"), [("--clip 0.5", 7), ("", 5)])
def test_several_runs_are_several_warm_arms_but_for_their_seeds(
    other: str, num_arms: int, world: World, here: Path
) -> None:
    for folder, options in (("a", ""), ("b", other)):
        succeed(f"pretrain {world.texts} -o {folder}/base {TINY} {options} --seed {ord(folder)}")
    command = COMMAND.replace("--from {base}", "--from a/base --from b/base")
    options = OPTIONS.replace("--trials 2", "--trials 1")
    succeed(f"{command} {options} --seeds 0 -o out", **vars(world))
    result = read(here / "out/results.json")
    arms = [arm["name"] for arm in result["arms"]]
    assert len(set(arms)) == len(arms) == num_arms
    assert "lsa" in arms  # of the text that both runs were trained on
    assert len(list((here / "out/cells").glob("*-0.json"))) == 7
    alone = f"{command} {options} --seeds 0,1 --arms warm -o warm"
    if other:
        succeed(alone, **vars(world))
        assert [arm["kind"] for arm in read(here / "warm/results.json")["arms"]] == ["warm"] * 2
    else:
        assert "so they are one arm" in refuse(alone, **vars(world))


@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_subsets_are_nested_and_stratified(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    classes = [number for number, count in enumerate(counts) for _ in range(count)]
    rows = nested_rows(classes, seed)
    assert sorted(rows) == list(range(len(classes)))
    size = data.draw(st.integers(len(counts), len(classes)))
    found = Counter(classes[row] for row in rows[:size])
    assert set(found) == set(range(len(counts)))
    for number, count in enumerate(counts):
        share = size * count / len(classes)
        assert found[number] == 1 or abs(found[number] - share) <= len(counts)


@given(num_train=st.integers(1, 3_000), num_set_aside=st.integers(0, 900), data=st.data())
def test_labels_pay_for_their_validation(
    num_train: int, num_set_aside: int, data: st.DataObject
) -> None:
    pool = LabelPool(num_train, num_set_aside)
    labels = data.draw(st.integers(min(2, len(pool)), len(pool)))
    training, selecting = pool.divide(labels)
    assert selecting is not None
    assert training + selecting == labels
    assert training <= num_train
    assert selecting <= num_set_aside
    assert LabelPool(num_train, None).divide(num_train) == (num_train, None)


@given(
    classes=st.lists(st.integers(0, 1), min_size=4, max_size=40),
    has_test=st.booleans(),
    data=st.data(),
)
def test_only_paid_labels_select_and_none_selects_its_own_prediction(
    classes: list[int], has_test: bool, data: st.DataObject
) -> None:
    num_selecting = data.draw(st.integers(2, len(classes)))
    folds = selections(classes, has_test, num_selecting)
    assert sorted(row for fold in folds for row in fold.predicted) == list(range(len(classes)))
    assert len({row for fold in folds for row in fold.selecting}) == num_selecting
    assert all(len(fold.selecting) for fold in folds)
    if not has_test:
        assert not any(set(fold.selecting) & set(fold.predicted) for fold in folds)


def test_a_few_texts_that_select_have_the_frequent_classes() -> None:
    """One text of each class would show a rule for answers that most texts never need."""
    classes = [*range(20), *[20] * 180]
    (fold,) = selections(classes, True, num_selecting=10)
    assert [classes[row] for row in fold.selecting] == [20] * 10


def test_seeds_draw_different_subsets() -> None:
    assert nested_rows([0, 1] * 20, 0)[:10] != nested_rows([0, 1] * 20, 1)[:10]


def test_a_rate_that_diverges_is_lowered() -> None:
    tried: list[float] = []

    def train(rate: float) -> str:
        tried.append(rate)
        if rate > 1e-3:
            raise DivergedError("the loss became nan")
        return "trained"

    assert train_stably(train, 3e-3, "warm") == ("trained", pytest.approx(9e-4))
    assert tried == pytest.approx([3e-3, 9e-4])
    assert train_stably(train, 3.0, "warm")[1] == pytest.approx(3.0 * 0.3**7)
    with pytest.raises(WarmstartError, match="leave it out with --arms"):
        train_stably(train, 1e6, "warm")


def test_damage_that_does_not_recur_leaves_the_rate_alone() -> None:
    faults = iter([DamagedStateError("the weights became infinite or NaN at step 3")])

    def train(rate: float) -> str:
        for fault in faults:
            raise fault
        return "trained"

    assert train_stably(train, 3e-3, "warm") == ("trained", 3e-3)


def _config(world: World, base: Path) -> CompareConfig:
    return CompareConfig(
        from_runs=(str(base),),
        train=(str(world.train),),
        valid=str(world.valid),
        test=str(world.test),
        arms=("warm", "cold"),
        epochs=2,
        threads=1,
        device="cpu",
        out="unused",
    )


@pytest.mark.parametrize("fault", [spoil_loss, spoil_gradient, spoil_moment])
def test_a_fault_of_the_machine_changes_no_result(
    world: World, base: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    config = _config(world, base)
    (expected, *_), splits = _fit(config)
    faults: dict[int, Fault] = {3: fault}

    def build_faulty(*given: Any) -> Trainer:
        trainer = put_faults(build_trainer(*given), faults)
        faults.clear()
        return trainer

    monkeypatch.setattr("warmstart.comparison.arms.build_trainer", build_faulty)
    (model, *_), _ = _fit(config)
    assert not faults
    assert model.value == expected.value
    assert np.array_equal(model.predict(splits.test), expected.predict(splits.test))


def _fit(config: CompareConfig) -> tuple[list[TrainedModel], Any]:
    planned = plan_experiment(config).arms[0]
    return list(planned.arm.fit(planned.parts[0], [1e-3], seed=0)), planned.parts[0]


def test_models_that_share_a_module_keep_their_own_weights(world: World, base: Path) -> None:
    config = _config(world, base)
    rates = [1e-4, 1e-1]
    for number in range(2):
        planned = plan_experiment(config).arms[number]
        splits = planned.parts[0]
        assert splits.test is not None
        together = [model.predict for model in list(planned.arm.fit(splits, rates, seed=0))]
        alone = []
        for rate in rates:
            (model,) = plan_experiment(config).arms[number].arm.fit(splits, [rate], seed=0)
            alone.append(model.predict(splits.test))
        assert not np.allclose(alone[0], alone[1])
        for predict, expected in zip(together, alone, strict=True):
            np.testing.assert_allclose(predict(splits.test), expected, atol=1e-6)
