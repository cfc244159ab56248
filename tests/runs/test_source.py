from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.model.models import LanguageModel
from warmstart.runs.checkpoint import State, save_checkpoint, save_weights
from warmstart.runs.folder import FORMAT, RunFolder
from warmstart.runs.saved import read_run
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import train_tokenizer

WORDS = ["le livre est bon", "la page est longue", "un roman sans fin"]


@pytest.fixture
def run(tmp_path: Path, tiny: ModelConfig) -> RunFolder:
    """Return a run of a model whose newest checkpoint is not its best."""
    run = RunFolder(tmp_path / "run")
    tokenizer = train_tokenizer(WORDS * 20, "bpe", 280)
    shape = replace(tiny, vocab_size=tokenizer.vocab_size)
    config = {
        "command": "pretrain",
        "format": FORMAT,
        "task": "causal",
        "settings": {},
        "model": shape.to_json(),
    }
    write_json(run.config_file, config)
    tokenizer.save(run.path)
    save_weights(run.weights_file, LanguageModel(shape).state_dict())
    save_checkpoint(run, LanguageModel(shape), {}, State(step=5), keep=1)
    return run


def test_a_run_and_its_checkpoint(run: RunFolder) -> None:
    best = read_run(run.path)
    newest = read_run(run.checkpoints / "step-5")
    assert best.task == newest.task == "causal"
    assert best.model == newest.model
    assert best.folder.path == newest.folder.path == run.path
    assert best.tokenizer.fingerprint() == newest.tokenizer.fingerprint()
    assert best.weights.keys() == newest.weights.keys()
    name = "backbone.embed.weight"
    assert not torch.equal(best.weights[name], newest.weights[name])


def test_texts_seen_include_those_of_earlier_stages(run: RunFolder) -> None:
    texts = ["le premier livre de la saga", "le second livre de la saga", "un autre livre"]
    first, second = (fingerprints_of([text]).to_json() for text in texts[:2])
    before = [{"run": "earlier", "fingerprints": first}]
    write_json(run.data_file, {"fingerprints": second, "lineage": before})
    seen = find_matches(fingerprints_of(texts), read_run(run.path).texts_seen())
    assert seen.copies.tolist() == [True, True, False]


def test_a_path_that_is_no_run_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="absent does not exist"):
        read_run(tmp_path / "absent")
    with pytest.raises(WarmstartError, match=r"is not a run folder: no config\.json"):
        read_run(tmp_path)
    with pytest.raises(WarmstartError, match="step-6 does not exist"):
        read_run(run.checkpoints / "step-6")


def test_a_tokenizer_larger_than_the_model_is_refused(run: RunFolder) -> None:
    config = run.config()
    config["model"]["vocab_size"] = 100
    write_json(run.config_file, config)
    with pytest.raises(WarmstartError, match=r"tokenizer has \d+ entries, the model only 100"):
        read_run(run.path)
