"""Every command takes an imported model; what goes out comes in again."""

import json
from pathlib import Path

import pytest

from command_line import MACHINE, QUICK, World, read, run, succeed
from hub_folders import save_random

pytest.importorskip("transformers")

LABELLED = "--train {train} --valid {valid}"
SMALL = f"--batch-tokens 128 --steps 2 {MACHINE}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return an imported run of every kind."""
    folder = tmp_path_factory.mktemp("imported")
    made = {}
    for name, family, architecture in (
        ("bert", "bert", "BertForPreTraining"),
        ("base", "roberta", "RobertaModel"),
        ("gpt2", "gpt2", "GPT2LMHeadModel"),
        ("llama", "llama", "LlamaForCausalLM"),
        ("classes", "bert", "BertForSequenceClassification"),
        ("last", "gpt2", "GPT2ForSequenceClassification"),
    ):
        path = save_random(tmp_path_factory.mktemp(name), family, architecture)
        said = succeed("import {path} -o {out}", path=path, out=folder / name).out
        assert architecture in said
        assert f"next: warmstart compare --from {folder / name}" in said
        made[name] = folder / name
    return made


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_generate(runs: dict[str, Path], name: str) -> None:
    command = f"generate {{run}} --prompt 'the book' --max-tokens 8 {MACHINE}"
    assert succeed(command, run=runs[name]).out.startswith("the book")


def test_generate_refuses_what_does_not_generate(runs: dict[str, Path]) -> None:
    assert "is a masked language model" in run("generate {run}", run=runs["bert"]).said


@pytest.mark.parametrize("name", ["classes", "last"])
def test_predict(runs: dict[str, Path], name: str) -> None:
    lines = succeed(f"predict {{run}} {MACHINE}", b"the book\n\nis good\n", run=runs[name]).out
    assert [bool(line) for line in lines.splitlines()] == [True, False, True]
    assert set(lines.splitlines()) <= {"bad", "good", "so so", ""}


@pytest.mark.parametrize("name", ["bert", "base", "gpt2", "llama", "classes"])
def test_finetune(runs: dict[str, Path], world: World, tmp_path: Path, name: str) -> None:
    pooling = "cls" if name == "bert" else "mean"
    command = (
        f"finetune --from {{run}} {LABELLED} --pooling {pooling} --epochs 1 {MACHINE} -o {{out}}"
    )
    places = {"run": runs[name], "train": world.train, "valid": world.valid}
    succeed(command, out=tmp_path / "warm", **places)
    succeed(f"predict {{run}} {MACHINE}", b"the book\n", run=tmp_path / "warm")
    scored = f"evaluate {{run}} --test {{test}} {MACHINE}"
    succeed(scored, run=tmp_path / "warm", test=world.test)


@pytest.mark.parametrize(("name", "objective"), [("gpt2", "causal"), ("llama", "causal")])
def test_pretrain_goes_on(
    runs: dict[str, Path], world: World, tmp_path: Path, name: str, objective: str
) -> None:
    command = f"pretrain {{texts}} --from {{run}} --objective {objective} {SMALL} -o {{out}}"
    succeed(command, texts=world.texts, run=runs[name], out=tmp_path / "on")
    assert read(tmp_path / "on" / "config.json")["task"] == objective


def test_compare(runs: dict[str, Path], world: World, tmp_path: Path) -> None:
    places = {"run": runs["base"], "train": world.train, "valid": world.valid}
    command = f"compare --from {{run}} {LABELLED} --seeds 0 --trials 1 {QUICK} -o {{out}}"
    succeed(command, out=tmp_path / "comparison", **places)
    assert (tmp_path / "comparison" / "report.html").exists()


def test_evaluate_and_params(runs: dict[str, Path], world: World) -> None:
    for name in ("gpt2", "llama"):
        command = f"evaluate {{run}} --test {{texts}} --json {MACHINE}"
        assert succeed(command, run=runs[name], texts=world.texts).json["perplexity"] > 1
    for name in runs:
        assert succeed("params {run} --json", run=runs[name]).json["total"] > 1000


def test_out_and_in_again(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in runs:
        places = {"run": runs[name], "out": tmp_path / f"{name}-hf", "again": tmp_path / name}
        said = succeed("export {run} --to hf -o {out}", **places).out
        assert "same tokens, outputs differ by" in said
        succeed("import {out} -o {again}", **places)


def test_an_exported_classifier_says_the_same(runs: dict[str, Path], tmp_path: Path) -> None:
    import transformers

    for name in ("classes", "last"):
        succeed("export {run} -o {out}", run=runs[name], out=tmp_path / name)
        text = b"the book is good\nbad\n"
        ours = succeed(f"predict {{run}} --json {MACHINE}", text, run=runs[name]).out
        pipe = transformers.pipeline("text-classification", str(tmp_path / name), device="cpu")
        theirs = pipe(text.decode().splitlines(), batch_size=2)
        for line, found in zip(ours.splitlines(), theirs, strict=True):
            assert json.loads(line)["label"] == found["label"]
            assert json.loads(line)["probability"] == pytest.approx(found["score"], abs=1e-5)


def test_refusals(runs: dict[str, Path], base: Path, tmp_path: Path) -> None:
    places = {"run": runs["bert"], "base": base, "out": tmp_path / "x"}
    assert "is a run of warmstart already" in run("import {run} -o {out}", **places).said
    assert "exists already" in run("export {run} -o {run}", **places).said
    assert "positions=sinusoidal (learned fits)" in run("export {base} -o {out}", **places).said
    assert "--to" in run("export {run} --to tflite -o {out}", **places).said
    assert not (tmp_path / "x").exists()


def test_the_same_in_python(runs: dict[str, Path], tmp_path: Path) -> None:
    import warmstart

    exported = warmstart.export_model(run=str(runs["llama"]), out=str(tmp_path / "hf"))
    assert exported.architecture == "LlamaForCausalLM"
    imported = warmstart.import_model(folder=str(tmp_path / "hf"), out=str(tmp_path / "run"))
    assert imported.kind == "a causal language model"


def test_what_cannot_be_exported_is_said_before_the_training(
    runs: dict[str, Path], world: World, here: Path
) -> None:
    said = succeed(f"pretrain {world.texts} --preset lab {SMALL} --max-length 16 -o lab").err
    assert "lab cannot be exported to Hugging Face later: " in said
    assert said.index("cannot be exported") < said.index("pretraining:")
    files = f"--train {world.train} --valid {world.valid} --epochs 1 {MACHINE}"
    for pooling, reason in (("mean", "GPT-2: pooling=mean (--pooling last fits)"), ("last", "")):
        said = succeed(
            f"finetune --from {runs['gpt2']} {files} --pooling {pooling} -o {pooling}"
        ).err
        assert ("cannot be exported" in said) == bool(reason)
        assert reason in said
    assert run("export mean -o hf").code == 2
    succeed("export last -o hf")


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        (
            "--arms warm,cold,tfidf",
            {
                "warm, cold": "GPT-2: pooling=mean (--pooling last fits)",
                "tf-idf": "only a Transformer can be",
            },
        ),
        ("--arms warm,tfidf --save none", {}),
        ("--arms warm,cold --pooling last", {}),
    ],
)
def test_a_comparison_says_before_it_trains_which_models_cannot_be_exported(
    runs: dict[str, Path], world: World, here: Path, options: str, problems: dict[str, str]
) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    fast = f"--epochs 1 --seeds 0 --trials 1 {MACHINE}"
    said = succeed(f"compare --from {runs['gpt2']} {files} {fast} {options} -o out").err
    before = said[: said.index("comparing: ")]
    assert said.count("cannot be exported") == len(problems)
    for names, problem in problems.items():
        assert f"{names} cannot be exported to Hugging Face later: {problem}" in before
