"""What `look explore` writes, and what it refuses before it writes anything."""

import base64
import json
import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import SHAPE, make_run

import warmstart
from command_line import refuse, succeed
from warmstart.errors import WarmstartError
from warmstart.look import explore
from warmstart.look.explore import ExplorePage, architecture, explore_html, model_data, pack
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import JsonTokenizer, TokenizerPair, load_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer


def test_a_page_holds_its_models_and_nothing_from_elsewhere(
    base: Path, warm: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    ran = succeed(
        "look explore {warm} {base} --text '</script>' -o {out}", warm=warm, base=base, out=out
    )
    assert "a classifier, a causal language model, 0." in ran.out
    page = out.read_text("utf-8")
    assert (
        re.findall(r"""(?:src|href|url)\s*[=(]""", page.split('<script type="application/json"')[0])
        == []
    )
    assert page.count("</script>") == 2
    assert "default-src 'none'; script-src 'sha256-" in page
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert [model["name"] for model in json.loads(data[1])["models"]] == [str(warm), str(base)]


def test_a_page_replaces_a_page_and_nothing_else(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for _ in range(2):
        succeed("look explore {base} -o {out}", base=base, out=out)
    out.write_text("a file of mine")
    assert "exists already" in refuse("look explore {base} -o {out}", base=base, out=out)
    assert out.read_text() == "a file of mine"


def test_a_page_from_python(base: Path, tmp_path: Path) -> None:
    page = warmstart.look_explore(runs=(str(base),), out=str(tmp_path / "page.html"))
    assert isinstance(page, ExplorePage)
    assert "<iframe" in page._repr_html_()


@pytest.mark.parametrize("shape", [(7,), (5, 9), (3, 1)])
def test_packed_weights_are_near_the_weights(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape) * 10 ** torch.randn(shape[0] if len(shape) > 1 else 1)[:, None]
    tensor = tensor.reshape(shape) if tensor.numel() == torch.Size(shape).numel() else tensor[0]
    packed = pack(tensor)
    scales = np.frombuffer(base64.b64decode(packed["scales"]), "<f4")
    parts = np.frombuffer(base64.b64decode(packed["integers"]), np.uint8).reshape(-1, 3)
    integers = [int.from_bytes(part.tobytes(), "little", signed=True) for part in parts]
    rows = tensor.reshape(-1, shape[-1]).numpy()
    unpacked = np.reshape(integers, rows.shape) * scales[:, None]
    assert (np.abs(unpacked - rows) <= 2e-7 * np.abs(rows).max(1, keepdims=True)).all()


def test_a_row_of_zeros_stays_zero() -> None:
    packed = pack(torch.zeros(2, 3))
    assert not any(base64.b64decode(packed["integers"]))


# Every field of ModelConfig: what the script computes, and what changes nothing in use.
COMPUTED = {
    *("vocab_size", "width", "depth", "heads", "ffn_width", "max_length", "attention", "norm"),
    *("norm_position", "positions", "activation", "tied", "biases", "scale_embedding"),
    *("embedding_norm", "segments", "pooler", "transform", "output_bias", "norm_eps"),
    *("rope_base", "local_window", "global_every", "local_rope_base", "first_norm", "ablated"),
}
UNUSED = {"dropout", "inner_dropout", "decoder_depth", "target_vocab_size", "shared"}


def test_a_new_choice_of_architecture_is_not_ignored() -> None:
    assert {field.name for field in fields(ModelConfig)} == COMPUTED | UNUSED


@pytest.mark.parametrize("name", ["positions", "norm", "activation"])
def test_an_unknown_choice_is_refused(name: str) -> None:
    shape: Any = SimpleNamespace(**asdict(SHAPE) | {name: "new"})
    with pytest.raises(WarmstartError, match=f"model.{name}=new is not known to look explore"):
        architecture(shape)


@pytest.mark.parametrize(
    ("task", "fault"),
    [("translate", "is a translator"), ("backbone", "is a backbone without a head")],
)
def test_other_kinds_are_refused(tokenizer: Tokenizer, task: str, fault: str) -> None:
    _, run = make_run(task, tokenizer)
    with pytest.raises(WarmstartError, match=f"{fault}; look explore shows classifiers"):
        model_data(run)


def test_a_classifier_of_pairs_is_refused(tokenizer: Tokenizer) -> None:
    _, run = make_run("classify", tokenizer)
    run.config["pairs"] = True
    with pytest.raises(WarmstartError, match="reads pairs of texts"):
        model_data(run)


def test_a_large_model_is_refused(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = make_run("causal", tokenizer)
    monkeypatch.setattr(explore, "MAX_PAGE", 10_000)
    with pytest.raises(WarmstartError, match=r"parameters, which take .* MB of a page.*tiny"):
        model_data(run)


def test_too_many_models_are_refused(
    base: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed("look explore {base} -o one.html", base=base)
    monkeypatch.setattr(explore, "MAX_PAGE", (here / "one.html").stat().st_size + 100)
    assert "name fewer runs" in refuse("look explore {base} {base} -o two.html", base=base)
    assert not (here / "two.html").exists()


def test_weights_that_are_no_numbers_are_refused(tokenizer: Tokenizer) -> None:
    _, run = make_run("causal", tokenizer)
    run.weights["backbone.embed.weight"][0, 0] = torch.nan
    with pytest.raises(WarmstartError, match="NaN or infinite"):
        model_data(run)


def changed(run: SavedRun, **parts: Any) -> SavedRun:
    """Return a run whose tokenizer.json has other parts."""
    spec = json.loads(run.tokenizer.content)
    tokenizer = JsonTokenizer(json.dumps({**spec, **parts}).encode())
    assert run.transformer is not None
    return replace(run, transformer=(run.model, TokenizerPair(tokenizer, tokenizer)))


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"normalizer": {"type": "NFKC"}}, "the normalizer NFKC"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "the pre-tokenizer Whitespace"),
        ({"pre_tokenizer": None}, "the pre-tokenizer nothing"),
    ],
)
def test_other_tokenizers_are_refused(
    tokenizer: Tokenizer, parts: dict[str, Any], fault: str
) -> None:
    _, run = make_run("causal", tokenizer)
    with pytest.raises(WarmstartError, match=rf"{fault}, which look explore cannot compute"):
        model_data(changed(run, **parts))


def test_a_vocabulary_of_pieces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pieces.txt").write_text("▁a\n▁b\n")
    _, run = make_run("causal", load_tokenizer(tmp_path / "pieces.txt"))
    with pytest.raises(WarmstartError, match="the model WordLevel"):
        model_data(run)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("{base} -o a.png", "-o a.png must end in .html"),
        ("no -o a.html", "no does not exist"),
        ("-o a.html", "RUNS"),
    ],
)
def test_commands_are_refused(base: Path, here: Path, words: str, fault: str) -> None:
    assert fault in refuse(f"look explore {words}", base=base)
    assert not list(here.iterdir())


def test_a_page_says_what_it_is_of(tokenizer: Tokenizer) -> None:
    _, run = make_run("causal", tokenizer)
    page = explore_html([model_data(run)], "")
    assert "<title>Explore runs/toy</title>" in page
