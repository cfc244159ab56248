"""With few labels, a share validates, and the model that is kept learns all of them."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from command_line import MACHINE, QUICK, World, read, succeed, weights_of
from warmstart.data.labelled import read_labelled
from warmstart.data.splits import split_rows
from warmstart.recipes.finetune import FEW_LABELS

COMMAND = "finetune --train {train} --from {base} " + QUICK


def trained_and_set_aside(file: Path) -> tuple[int, int]:
    data = read_labelled(file)
    train, valid = split_rows(data, data.labels)
    return len(train), len(valid)


@pytest.mark.parametrize("frozen", ["", " --frozen"])
def test_the_kept_model_learned_all_labels(
    frozen: str, world: World, base: Path, here: Path
) -> None:
    ran = succeed(f"{COMMAND}{frozen} -o run", **vars(world), base=base)
    num_train, num_valid = trained_and_set_aside(world.train)
    assert f"once more, on all {num_train + num_valid} labelled texts" in ran.err
    assert f"of a model trained on {num_train} labelled texts; the one" in ran.out
    scores = read(here / "run/scores.json")
    assert scores["labels"] == scores["trained_on"] == num_train + num_valid
    assert scores["scored_labels"] == num_train
    card = (here / "run/README.md").read_text("utf-8")
    assert f"trained on {num_train} labels" in card


def test_it_is_what_training_on_all_of_them_gives(world: World, base: Path, here: Path) -> None:
    """But for the head, which is calibrated by the texts that were set aside."""
    data = read_labelled(world.train)
    order = [row for part in split_rows(data, data.labels) for row in part]
    rows = [f"{data.labels[row]}\t{data.texts[row]}\n" for row in order]
    (here / "ordered.tsv").write_text("label\ttext\n" + "".join(rows))
    succeed(f"{COMMAND} -o run", **vars(world), base=base)
    files = f"--train ordered.tsv --valid {world.valid} --from {base}"
    succeed(f"finetune {files} {QUICK} -o whole")
    kept, whole = (load_file(here / name / "model.safetensors") for name in ("run", "whole"))
    backbone = [name for name in kept if name.startswith("backbone.")]
    assert backbone
    assert all(kept[name].equal(whole[name]) for name in backbone)


@pytest.mark.parametrize("options", ["--valid {valid}", "--keep-epoch best", "--minutes 5"])
def test_other_validations_stay_as_they_are(
    options: str, world: World, base: Path, here: Path
) -> None:
    ran = succeed(f"{COMMAND} {options} -o run", **vars(world), base=base)
    assert "once more" not in ran.err
    assert "scored_labels" not in read(here / "run/scores.json")


def test_many_labels_can_spare_a_share(world: World, base: Path, here: Path) -> None:
    lines = world.train.read_text("utf-8").splitlines()
    more = [f"{line} {number}" for number in range(FEW_LABELS // 40) for line in lines[1:]]
    (here / "many.tsv").write_text("\n".join([lines[0], *more]) + "\n")
    assert len(more) > FEW_LABELS
    ran = succeed(f"finetune --train many.tsv --from {base} {QUICK} -o run")
    assert "once more" not in ran.err


def test_a_run_that_ended_before_it_goes_on_with_it(world: World, base: Path, here: Path) -> None:
    succeed(f"{COMMAND} -o run", **vars(world), base=base)
    weights = weights_of(here / "run")
    (here / "run/scores.json").unlink()
    (here / "run/model.safetensors").unlink()
    ran = succeed(f"{COMMAND} -o run --resume", **vars(world), base=base)
    assert "once more" in ran.err
    assert weights_of(here / "run") == weights


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few") / "data"
    succeed(f"samples -o {folder}")
    return folder


@pytest.mark.parametrize("kind", ["tags-{}.conll", "ratings-{}.tsv", "questions-{}.jsonl"])
def test_every_kind_of_label(kind: str, samples: Path, base: Path, here: Path) -> None:
    """The kept model answers in the unit of the labels, as one that a file validates does."""
    train, valid = (samples / kind.format(part) for part in ("train", "valid"))
    command = f"finetune --train {train} --labels 40 --from {base} {QUICK}"
    succeed(f"{command} -o run")
    succeed(f"{command} --valid {valid} -o whole")
    of_run, of_whole = (
        succeed(f"evaluate {name} --test {valid} --json {MACHINE}").json
        for name in ("run", "whole")
    )
    assert of_run.keys() >= of_whole.keys() - {"interval_coverage"}
    for name in {"mae", "accuracy", "f1"} & of_run.keys():
        assert of_run[name] == pytest.approx(of_whole[name], rel=0.5, abs=0.2)
