"""LSA and TF-IDF as ONNX: onnxruntime reads texts and answers as the run does."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, World, refuse, succeed
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.interop.formats import PROBES
from warmstart.runs.folder import RunFolder
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.latent_semantics import LatentSpace, fit_space
from warmstart.tasks.lsa import SETTINGS, LsaBaseline
from warmstart.tasks.one_vs_rest import LsaSets
from warmstart.tasks.ridge import LSA_SETTINGS, LsaRidge
from warmstart.tasks.tfidf import CountedTexts, TfidfBaseline

pytestmark = pytest.mark.slow

onnxruntime = pytest.importorskip("onnxruntime")

LETTERS = "rain gold Don't naïve ÉTÉ Straße İstanbul 3.14 x_y #tag a é e\u0301 ½ Ⅷ ok! <pad>"
SCRIPTS = "привет עברית हिन्दी 한국어 雨水很好 東京tower カタカナ ฝนตกหนัก ດີຫຼາຍ မြန်မာ 🎉 —"
WORDS = f"{LETTERS} {SCRIPTS}".split()
DRAW = np.random.default_rng(0)
TEXTS = [" ".join(DRAW.choice(WORDS, 8)) for _ in range(120)]
STRANGE = [*PROBES, "", " \t\n ", "unknown", "雨水", "x" * 3000, *TEXTS[:5], "RAIN\u2003GOLD\x85a"]
JOINED = next(number for number, setting in enumerate(SETTINGS) if setting.is_joined)
JOINED_NUMBERS = next(number for number, (_, is_joined) in enumerate(LSA_SETTINGS) if is_joined)
CLASSES, MISSING = [i % 2 for i in range(120)], [2 * (i % 2) for i in range(120)]
THREE, SETS = [i % 3 for i in range(120)], [[0], [0, 1], [], [1]] * 30
Fit = Callable[[LatentSpace, CountedTexts], FittedBaseline]


def lsa(targets: list[int], num: int, setting: int, space: LatentSpace, counted: Any) -> Any:
    baseline = LsaBaseline("lsa", space, num, "none", counted)
    return baseline.fit(Dataset(texts=TEXTS, targets=targets), float(setting))


RUNS: dict[str, tuple[str, list[str], Fit]] = {
    "two classes": ("lsa", ["a", "b"], partial(lsa, CLASSES, 2, 0)),
    "joined with TF-IDF": ("lsa", ["a", "b", "c"], partial(lsa, THREE, 3, JOINED)),
    "a class without texts": ("lsa", ["a", "b", "c"], partial(lsa, MISSING, 3, JOINED)),
    "TF-IDF": (
        "tfidf",
        ["a", "b", "c"],
        lambda space, counted: TfidfBaseline(3, "none", counted).fit(
            Dataset(texts=TEXTS, targets=THREE), 10.0
        ),
    ),
    "several labels": (
        "lsa-sets",
        ["a", "b"],
        lambda space, counted: LsaSets("lsa", space, 2, counted).fit(
            Dataset(texts=TEXTS, targets=SETS), float(JOINED)
        ),
    ),
    "numbers": (
        "lsa-numbers",
        [],
        lambda space, counted: LsaRidge("lsa", space, counted).fit(
            Dataset(texts=TEXTS, targets=[100.0 + i for i in range(120)]), float(JOINED_NUMBERS)
        ),
    ),
}


def make_run(folder: Path, name: str) -> Path:
    task, classes, fit = RUNS[name]
    run = RunFolder(folder)
    folder.mkdir()
    facts = {"format": 1, "command": "compare", "task": task, "settings": {}, "model": {}}
    write_json(run.config_file, facts | ({"classes": classes} if classes else {}))
    fingerprints = fingerprints_of(TEXTS).to_json()
    write_json(run.data_file, {"files": [], "fingerprints": fingerprints})
    space = fit_space(TEXTS)
    assert space is not None
    assert {"雨水", "rain", "カ"} < set(space.words)
    fit(space, CountedTexts()).save(run)
    return folder


def answers(folder: Path, texts: list[str]) -> Any:
    """Read texts as the card says."""
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    prepared = [" ".join(["", *text.lower().split(), ""]) for text in texts]
    return session.run(None, {"text": np.array(prepared)})[0]


@pytest.mark.parametrize("name", RUNS)
def test_onnxruntime_answers_as_the_run_does(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", name)
    result = export_model(ExportConfig(run=str(run), to="onnx", out=str(tmp_path / "out")))
    assert result.check is not None
    assert result.check.difference < 1e-5
    predictions = warmstart.load(run).predict(STRANGE)
    if name == "numbers":
        ours = [[prediction.number] for prediction in predictions]
    else:
        ours = [list(prediction.probabilities.values()) for prediction in predictions]
    np.testing.assert_allclose(answers(tmp_path / "out", STRANGE), ours, rtol=1e-5, atol=1e-5)
    alone = np.concatenate([answers(tmp_path / "out", [text]) for text in STRANGE])
    np.testing.assert_allclose(alone, ours, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["joined with TF-IDF", "numbers"])
def test_the_code_of_the_card_runs(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", name)
    export_model(ExportConfig(run=str(run), to="onnx", out=str(tmp_path / "out")))
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (prediction,) = warmstart.load(run).predict(["A text."])
    if name == "numbers":
        assert float(ran.stdout) == pytest.approx(prediction.number, rel=1e-4)
    else:
        shares: dict[str, float] = eval(ran.stdout)
        assert shares == pytest.approx(prediction.probabilities, abs=1e-5)
    assert "warmstart export RUN --to onnx -o exported" in card


def test_a_wrong_graph_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, right = make_run(tmp_path / "run", "two classes"), LatentSpace.vectors
    monkeypatch.setattr(LatentSpace, "vectors", lambda space, texts: right(space, texts) + 0.1)
    with pytest.raises(WarmstartError, match="was not written: its outputs in onnxruntime"):
        export_model(ExportConfig(run=str(run), to="onnx", out=str(tmp_path / "out")))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--to hf", "an LSA classifier, which only --to onnx can hold; `warmstart serve`"),
        ("--to ctranslate2", "an LSA classifier, which only --to onnx can hold"),
        ("--to onnx --precision int8", "--precision int8 is for Transformers: leave it out"),
    ],
)
def test_other_forms_are_refused(options: str, sentence: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "two classes")
    assert sentence in refuse(f"export {run} {options} -o {tmp_path}/out")
    assert not (tmp_path / "out").exists()


def test_a_model_of_a_comparison_is_exported(world: World, here: Path) -> None:
    files = f"--unlabelled {world.texts} --train {world.train} --valid {world.valid}"
    succeed(f"compare {files} --seeds 0 --trials 1 -o race {MACHINE}")
    done = succeed("export race --to onnx -o exported")
    assert "checked with onnxruntime" in done.out
    texts = ["a good book", "dull"]
    ours = warmstart.load(here / "race").predict(texts)
    shares = [list(prediction.probabilities.values()) for prediction in ours]
    np.testing.assert_allclose(answers(here / "exported", texts), shares, atol=1e-5)
