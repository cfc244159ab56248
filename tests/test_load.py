"""The product from Python."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warmstart
from command_line import ENVIRONMENT, World, read, succeed, weights_of

TINY = {
    "objective": "causal",
    "preset": "tiny",
    "width": 16,
    "heads": 2,
    "depth": 1,
    "ffn_width": 32,
    "vocab_size": 300,
    "max_length": 16,
    "positions": "sinusoidal",
    "batch_tokens": 64,
    "steps": 6,
    "threads": 1,
    "precision": "fp32",
}


def test_importing_the_package_is_quick() -> None:
    code = "import sys, warmstart; assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


def test_threads_of_a_library_do_not_spin_for_long() -> None:
    code = "import os, warmstart; warmstart.load; assert os.environ['GOMP_SPINCOUNT'] == '2000'"
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "OMP_WAIT_POLICY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_version_needs_no_torch() -> None:
    code = "import sys, warmstart; assert warmstart.__version__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


def test_every_name_is_there() -> None:
    for name in warmstart.__all__:
        assert getattr(warmstart, name)
    assert set(dir(warmstart)) >= set(warmstart.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        warmstart.nothing  # noqa: B018


def test_the_verbs_of_the_command_line_are_functions(
    world: World, base: Path, warm: Path, here: Path
) -> None:
    made = warmstart.pretrain(files=[world.texts], out=here / "base", **TINY)
    assert weights_of(here / "base") == weights_of(base)
    assert made.run == here / "base"
    assert made.perplexity == read(base / "scores.json")["valid"]["perplexity"]
    found = warmstart.finetune(
        from_run=base,
        train=world.train,
        valid=world.valid,
        out=here / "warm",
        epochs=2,
        threads=1,
        precision="fp32",
    )
    assert weights_of(found.run) == weights_of(warm)
    assert 0 <= found.accuracy <= 1


def test_nothing_is_printed(world: World, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    warmstart.pretrain(files=world.texts, out="run", **TINY)
    assert capfd.readouterr() == ("", "")


def test_other_verbs(world: World, warm: Path) -> None:
    assert warmstart.count_parameters(model="lab").total == 21_018_401
    report = warmstart.report_data(files=[world.train, world.test])
    assert [file.rows for file in report.files] == [48, 24]
    assert warmstart.evaluate(run=warm, test=world.test).scores["rows"] == 24


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "compare", "evaluate", "demo"])
def test_help_lists_the_settings(verb: str) -> None:
    function = getattr(warmstart, verb)
    assert function.__name__ == verb
    assert function.__doc__
    assert {"seed", "device", "precision", "threads"} <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"steps": -1}, "steps -1"),
        ({"steps": "six"}, "'six'"),
        ({"steps": True}, "True"),
        ({"preset": "tinny"}, "'tiny'"),
        ({"precision": "fp8"}, "fp8"),
        ({"files": ["gone.txt"]}, "gone.txt"),
        ({"files": []}, "files is missing"),
        ({"heads": 3}, "heads"),
        ({"out": None}, "out is missing"),
    ],
)
def test_a_bad_value_is_a_warmstart_error(
    change: dict[str, object], named: str, world: World, here: Path
) -> None:
    settings = {"files": [world.texts], "out": "run", **TINY, **change}
    with pytest.raises(warmstart.WarmstartError, match=re.escape(named)):
        warmstart.pretrain(**settings)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "settings", "hint"),
    [
        ("finetune", {"epoch": 3}, "finetune has no setting 'epoch'; did you mean 'epochs'?"),
        ("pretrain", {"learning_rates": 1}, "'learning_rates'; did you mean 'learning_rate'?"),
        ("compare", {"from": "runs/base"}, "'from'; did you mean 'from_run"),
        ("embed", {"zzz": 1}, "embed has no setting 'zzz'; known: "),
    ],
)
def test_an_unknown_setting_gets_a_suggestion(
    verb: str, settings: dict[str, object], hint: str
) -> None:
    with pytest.raises(warmstart.WarmstartError, match=re.escape(hint)):
        getattr(warmstart, verb)(**settings)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"device": "gpu"}, "--device 'gpu' is unknown"),
        ({"precision": "bf17"}, "--precision 'bf17' is unknown; did you mean 'bf16'?"),
        ({"threads": 0}, "--threads 0 is not allowed"),
    ],
)
def test_load_refuses_what_the_flags_refuse(
    warm: Path, settings: dict[str, object], named: str
) -> None:
    with pytest.raises(warmstart.WarmstartError, match=re.escape(named)):
        warmstart.load(warm, **settings)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"truncate": "tial"}, "truncate 'tial' is unknown; did you mean 'tail'?"),
        ({"truncate": ""}, "truncate '' is unknown"),
        ({"pooling": "max"}, "pooling 'max' is unknown"),
    ],
)
def test_embed_refuses_unknown_rules(warm: Path, settings: dict[str, object], named: str) -> None:
    with pytest.raises(warmstart.WarmstartError, match=re.escape(named)):
        warmstart.load(warm, threads=1).embed(["a"], **settings)


def test_a_loaded_classifier_labels_texts(world: World, warm: Path) -> None:
    predictor = warmstart.load(warm, threads=1, precision="fp32")
    assert predictor.classes == ("negative", "positive")
    texts = world.texts.read_text(encoding="utf-8").splitlines()[:10]
    found = predictor.predict(texts)
    labels = succeed(f"predict {warm}", "\n".join(texts).encode()).out.split()
    assert [one.label for one in found] == labels
    assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in found)
    assert predictor.predict([]) == []


def test_a_label_does_not_depend_on_its_neighbours(world: World, warm: Path) -> None:
    predictor = warmstart.load(warm, threads=1, precision="fp32")
    texts = [*world.texts.read_text(encoding="utf-8").splitlines()[:8], "", "short"]
    together = predictor.predict(texts)
    for text, one in zip(texts, together, strict=True):
        assert predictor.predict([text])[0].probability == pytest.approx(one.probability, abs=1e-6)


def test_probabilities_are_fine_in_half_precision_too(world: World, warm: Path) -> None:
    texts = world.texts.read_text(encoding="utf-8").splitlines()
    coarse = warmstart.load(warm, threads=1, precision="bf16").predict(texts)
    fine = warmstart.load(warm, threads=1, precision="fp32").predict(texts)
    assert len({one.probability for one in coarse}) > 0.9 * len({one.probability for one in fine})


def test_one_text_instead_of_a_list_is_refused(warm: Path) -> None:
    with pytest.raises(warmstart.WarmstartError, match="list"):
        warmstart.load(warm).predict("a book")


def test_a_loaded_language_model_writes(base: Path) -> None:
    predictor = warmstart.load(base, threads=1, precision="fp32")
    first = predictor.generate("This book", max_tokens=8)
    assert first == predictor.generate("This book", max_tokens=8, seed=3)
    assert first.startswith("This book")
    with pytest.raises(warmstart.WarmstartError, match="language model"):
        predictor.predict(["a book"])
    with pytest.raises(warmstart.WarmstartError, match="language model"):
        _ = predictor.classes


def test_a_wrong_folder_is_named(here: Path) -> None:
    with pytest.raises(warmstart.WarmstartError, match="nowhere"):
        warmstart.load("nowhere")
