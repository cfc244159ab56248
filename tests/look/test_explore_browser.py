"""The page of `look explore` in a real browser: its script computes what the Python model does."""

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from small_runs import TEXT, make_run
from tokenizers import models, normalizers, pre_tokenizers
from torch import nn

from command_line import succeed
from warmstart.look.explore import explore_html, model_data
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runs.saved import SavedRun, read_run
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Machine
from warmstart.tasks.registry import open_saved, task_of
from warmstart.tasks.vectors import backbone_of
from warmstart.tokenization.backends import JsonTokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

Opened = Callable[..., Any]
TEXTS = [
    TEXT,
    "",
    " ",
    "I've said: it's 3,141 pages!!  Don't\tread\n\nit…  ",
    "Été à Zürich — ça va? œuvre ﬁn ǅ İstanbul ΣΑΣ",
    "東京で本を読む。 한국어 Ελληνικά Русский עברית العربية हिन्दी ไทย",
    "👩‍👩‍👧 🇫🇷 e\u0301 \u00a0\u2003x\u200b \u3000y \ufeff z\u0085w",
    "<s> </s> <pad> <unk> <mask> [MASK] <",
    "aaaaaaaaaaaaaaaaaaaaaaaa x²½Ⅷ _a_b __proto__ constructor",
]
TOLERANCE = 1e-4
WHOLE: dict[str, Any] = {}
SWITCHES: list[dict[str, Any]] = [
    WHOLE,
    {"mask": False},
    {"mask": True},
    {"scale": False},
    {"positions": False},
    {"off": [1, 0]},
    {"mask": False, "scale": False, "off": [0, 1]},
]
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "vaswani": {},
    "gpt2": {"norm_position": "pre", "positions": "learned", "activation": "gelu_tanh"},
    "modern": {
        "norm": "rms",
        "norm_position": "pre",
        "positions": "rope",
        "activation": "swiglu",
        "tied": True,
        "biases": False,
        "scale_embedding": False,
    },
    "bert": {
        "attention": "bidirectional",
        "positions": "learned",
        "activation": "gelu",
        "embedding_norm": True,
        "segments": 2,
        "pooler": True,
        "transform": True,
        "tied": True,
    },
    "modernbert": {
        "attention": "bidirectional",
        "positions": "rope",
        "activation": "geglu",
        "norm_position": "pre",
        "biases": False,
        "first_norm": False,
        "local_window": 2,
        "global_every": 2,
        "local_rope_base": 500.0,
    },
    "relu2": {"norm": "rms", "activation": "relu2", "heads": 4, "rope_base": 1e5},
    "silu": {"activation": "silu", "positions": "rope", "norm_position": "pre"},
    "no norm": {"ablated": "norm", "width": 8},
    "no residual": {"ablated": "residual", "norm_position": "pre"},
    "no scale": {"ablated": "scale"},
    "no positions": {"ablated": "positions", "positions": "learned"},
    "no mask": {"ablated": "mask"},
}


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Return a function that opens a page of runs, which asks for nothing and stays silent."""
    pages = []
    complaints: list[str] = []

    def show(*runs: SavedRun) -> Any:
        path = tmp_path / "page.html"
        path.write_text(explore_html([model_data(run) for run in runs], TEXT), "utf-8")
        pages.append(open_page(browser, path, complaints))
        return pages[-1]

    yield show
    for page in pages:
        page.close()
    assert complaints == []


def open_page(browser: Any, path: Path, complaints: list[str]) -> Any:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: r.url == path.as_uri() or complaints.append(r.url))
    page.set_default_timeout(10_000)
    page.goto(path.as_uri())
    return page


def computed(page: Any, text: str, switches: dict[str, Any]) -> dict[str, Any]:
    """Return what the script computes for a text with switches."""
    script = """([text, switches]) => {
      const model = models[0], off = (switches.off ?? []).join();
      const all = { ...wholeModel(model), ...switches, isOff: (...head) => head.join() === off };
      const { ids, at, weights, probabilities } = compute(model, text, all);
      const numbers = weights.map((layer) => layer.map((head) => Array.from(head.numbers)));
      return { ids, at, weights: numbers, probabilities };
    }"""
    return page.evaluate(script, [text, switches])  # type: ignore[no-any-return]


def with_switches(model: nn.Module, switches: dict[str, Any]) -> nn.Module:
    """Return a copy of a model without some parts, by the settings that train such a model."""
    config: Any = model.config
    changed: dict[str, Any] = {}
    if "mask" in switches:
        changed["attention"] = "causal" if switches["mask"] else "bidirectional"
    for part in ("scale", "positions"):
        if not switches.get(part, True):
            changed["ablated"] = part
    twin: Any = deepcopy(model)
    twin.backbone.config = replace(config, **changed)
    if "off" in switches:
        layer, head = switches["off"]
        K = config.width // config.heads
        output = twin.backbone.blocks[layer].attend.output
        with torch.no_grad():
            output.weight[:, head * K : (head + 1) * K] = 0
    return twin


@torch.inference_mode()
def expected(model: nn.Module, run: SavedRun, result: dict[str, Any]) -> tuple[Any, Any]:
    """Return the weights and probabilities of the Python model for the ids that the page read."""
    ids = torch.tensor([result["ids"]])
    weights: list[torch.Tensor] = []
    hidden = backbone_of(model)(ids, attention_weights=weights)
    if isinstance(model, Classifier):
        logits = model.head(model.backbone, hidden, Layout())[0]
        is_one = task_of(run).page_output == "label"
        return torch.cat(weights), logits.softmax(-1) if is_one else logits.sigmoid()
    assert isinstance(model, LanguageModel)
    shares = model.head(hidden, model.backbone.embed.weight)[0, result["at"]].softmax(-1)
    suppressed = run.tokenizer.suppressed_ids(run.model.vocab_size)
    eos = [run.tokenizer.eos] if task_of(run).page_output == "masked word" else []
    return torch.cat(weights), shares.index_fill(0, torch.tensor(suppressed + eos), 0.0)


def check(
    page: Any,
    model: nn.Module,
    run: SavedRun,
    text: str,
    switches: dict[str, Any],
) -> None:
    result = computed(page, text, switches)
    weights, probabilities = expected(with_switches(model, switches), run, result)
    shown = np.reshape(result["weights"], weights.shape)
    assert np.abs(shown - weights.numpy()).max() < TOLERANCE, switches
    assert np.abs(np.array(result["probabilities"]) - probabilities.numpy()).max() < TOLERANCE


def allowed(config: ModelConfig) -> list[dict[str, Any]]:
    """Return the switches that settings of a model can express, to compare with."""
    takes_one = config.ablated != "nothing"
    return [
        switches
        for switches in SWITCHES
        if not (takes_one and {"mask", "scale", "positions"} & switches.keys())
        and not (config.local_window and switches.get("mask"))
        and switches.get("off", [0])[0] < config.depth
    ]


@pytest.mark.parametrize("task", ["causal", "masked", "classify"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_script_equals_the_model(
    opened: Opened, tokenizer: Tokenizer, task: str, name: str
) -> None:
    changed = dict(ARCHITECTURES[name])
    if task == "masked" and changed.get("ablated") == "mask":
        pytest.skip("a masked language model has no causal mask")
    if task == "causal":
        changed = {**changed, "attention": "causal", "local_window": 0}
    _, run = make_run(task, tokenizer, **changed)
    page = opened(run)
    model = task_of(run).load_model(run)
    text = TEXT.replace("une", "[MASK]") if task == "masked" else TEXT
    for switches in allowed(run.model):
        check(page, model, run, text, switches)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("task", ["classify", "multilabel"])
def test_every_pooling_and_kind_of_label(
    opened: Opened, tokenizer: Tokenizer, pooling: Any, task: str
) -> None:
    _, run = make_run("classify", tokenizer, **ARCHITECTURES["bert"])
    run = replace(run, task=task)
    run.config["settings"]["pooling"] = pooling
    check(opened(run), task_of(run).load_model(run), run, TEXT, WHOLE)


@pytest.mark.parametrize("task", ["causal", "masked", "classify"])
def test_texts_are_read_as_python_reads_them(
    opened: Opened, tokenizer: Tokenizer, task: str
) -> None:
    _, run = make_run(task, tokenizer)
    model: Any = open_saved(run, Machine())
    page = opened(run)
    for text in (TEXT, TEXT * 9, "Ce [MASK], est  [MASK]vraiment.", "[MASK]"):
        ids = page.evaluate("(text) => readText(text, models[0]).ids", text)
        if task == "classify":
            assert ids == model.encode([text]).ids[0]
        elif task == "causal":
            whole = [run.tokenizer.bos, *run.tokenizer.encode([text])[0]]
            assert ids == whole[: run.model.max_length - 1]
        else:
            probabilities = computed(page, text, WHOLE)["probabilities"]
            if "[MASK]" in text:
                best = model.probable_words(text, 1)[0]
                assert max(probabilities) == pytest.approx(best.probability, abs=1e-4)


def random_texts(num: int) -> list[str]:
    """Return texts of words, signs and letters of every script."""
    chance = random.Random(0)
    common = [*"abcdeéèà ,.'!?-0123 \n\t", "It's", " we'll ", "livre", "  ", "漢", "й", "👍", "½"]
    planes = [(0x20, 0x3000), (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF)]

    def letter() -> str:
        return chr(chance.randrange(*chance.choice(planes)))

    return [
        "".join(
            letter() if chance.random() < 0.1 else chance.choice(common)
            for _ in range(chance.randrange(40))
        )
        for _ in range(num)
    ]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "gpt2", "wordpiece"])
def test_the_script_splits_texts_as_the_tokenizer_does(opened: Opened, kind: str) -> None:
    tokenizer = other_tokenizer(kind) if kind in ("gpt2", "wordpiece") else trained(kind)
    _, run = make_run("causal", tokenizer)
    texts = TEXTS + [text for text in random_texts(400) if kind != "wordpiece" or is_plain(text)]
    found = opened(run).evaluate("(texts) => texts.map(models[0].encode)", texts)
    for text, ids, theirs in zip(texts, found, tokenizer.encode(texts), strict=True):
        assert ids == theirs, repr(text)


def trained(kind: str) -> Tokenizer:
    words = [
        "Ce livre est un ennui, vraiment. " * 9,
        "It's 3,141 pages. I've read it! " * 9,
        *TEXTS,
    ]
    return train_tokenizer(words, kind, 400)


def is_plain(text: str) -> bool:
    """Tell whether old and new tables of Unicode agree on a text."""
    return all(
        char in TEXT or (char.isalnum() and ord(char) < 0x250) or char in " \n\t,.'!?-"
        for char in text
    )


def other_tokenizer(kind: str) -> Tokenizer:
    """Return a tokenizer as GPT-2 or BERT have it."""
    if kind == "gpt2":
        spec = json.loads(trained("bpe").content)
        spec["normalizer"] = None
        spec["pre_tokenizer"]["add_prefix_space"] = True
        spec["model"]["merges"] = [" ".join(pair) for pair in spec["model"]["merges"]]
        return JsonTokenizer(json.dumps(spec).encode())
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "livre", "##s", "est", "un", "##e"]
    pieces += [*"abcdefghijlmnopqrstuvwxyz,.'!?-0123456789漢", "##a", "##b", "##t", "##é", "é"]
    library = tokenizers.Tokenizer(
        models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]")
    )
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:5])
    return JsonTokenizer(library.to_str().encode())


def test_switches_change_what_is_shown(opened: Opened, tokenizer: Tokenizer) -> None:
    _, classifier = make_run("classify", tokenizer, positions="learned")
    _, generator = make_run("causal", tokenizer)
    page = opened(classifier, generator)
    assert page.locator(".model").count() == 2
    for number in (0, 1):
        card = page.locator(".model").nth(number)
        shares = card.locator(".bars .share")
        whole = shares.all_inner_texts()
        assert "as trained" in card.locator(".change").inner_text()
        boxes = ["[name=mask]", "[name=scale]", "[name=positions]", '[data-head="1,0"]']
        for box in boxes:
            card.locator(box).click()
            assert shares.all_inner_texts() != whole, box
            assert "The switches move" in card.locator(".change").inner_text()
            card.locator(".reset").click()
            assert shares.all_inner_texts() == whole
            assert card.locator(box).is_checked()


def test_typing_and_keys(opened: Opened, tokenizer: Tokenizer) -> None:
    _, run = make_run("masked", tokenizer)
    page = opened(run)
    page.locator("#sentence").fill("Ce livre")
    assert page.locator(".tok").all_inner_texts() == ["<s>", "Ce", "livre", "</s>"]
    page.locator(".hide").click()
    assert page.locator("#sentence").input_value() == "Ce [MASK]"
    assert page.locator(".asked").inner_text() == "The masked word"
    assert not page.locator(".hide").is_visible()
    page.locator('.tok[aria-selected="true"]').focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator('.tok[aria-selected="true"]').inner_text() == "Ce"
    assert "“Ce” attends to" in page.locator(".read").inner_text()
    page.locator("#sentence").fill("")
    assert page.locator(".tok").all_inner_texts() == ["<s>", "</s>"]
    page.locator("#sentence").fill(TEXT * 20)
    assert "tokens are left out" in page.locator(".read").inner_text()


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_cut_at_the_side(opened: Opened, tokenizer: Tokenizer, width: int) -> None:
    _, run = make_run("causal", tokenizer, heads=8)
    page = opened(run)
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("#sentence").fill(TEXT * 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [400, 1340])
def test_four_heads_fit_and_panels_are_equally_wide(
    opened: Opened, tokenizer: Tokenizer, width: int
) -> None:
    page = opened(make_run("causal", tokenizer, heads=4)[1])
    page.set_viewport_size({"width": width, "height": 800})
    grid = page.locator(".grid")
    assert grid.evaluate("grid => grid.scrollWidth - grid.clientWidth") == 0
    model, notes = (page.locator(f".panel.{name}").bounding_box() for name in ("model", "notes"))
    assert (model["x"], model["width"]) == (notes["x"], notes["width"])


def test_the_page_of_trained_models(
    browser: Any, base: Path, warm: Path, masked: Path, tmp_path: Path
) -> None:
    for path in (base, warm, masked):
        out, complaints = tmp_path / f"{path.name}.html", list[str]()
        succeed("look explore {run} --text 'A bad book.' -o {out}", run=path, out=out)
        page, run = open_page(browser, out, complaints), read_run(path)
        for switches in allowed(run.model):
            check(page, task_of(run).load_model(run), run, "A bad book.", switches)
        page.close()
        assert complaints == []
