from pathlib import Path

import pytest

from command_line import MACHINE, World, read, refuse, run, succeed

EXACT = {
    "lab": (21_018_401, 21_018_401),
    "lab --head lm": (21_018_401, 21_018_401),
    "lab --head classifier --labels 2": (10_968_602, 10_968_602),
    "lab --head classifier --labels 2 --frozen": (10_968_602, 402),
    "bert-base --head none": (109_482_240, 109_482_240),
    "bert-base": (110_106_428, 110_106_428),
    "vaswani-base": (63_082_496, 63_082_496),
    "vaswani-big": (214_245_376, 214_245_376),
}


@pytest.mark.parametrize("arguments", EXACT)
def test_presets_have_exactly_the_parameters_promised(arguments: str) -> None:
    found = succeed(f"params {arguments} --json").json
    assert (found["total"], found["trainable"]) == EXACT[arguments]
    assert sum(layer["count"] for layer in found["layers"]) == found["total"]


@pytest.mark.parametrize("preset", ["modern-small", "tiny"])
def test_our_own_presets_stay_small(preset: str) -> None:
    assert succeed(f"params {preset} --json").json["total"] <= 32_000_000


def test_the_count_stands_beside_the_papers() -> None:
    assert "63,082,496 parameters: the 2017 paper gives about 65 million" in (
        succeed("params vaswani-base").out
    )
    assert succeed("params vaswani-base --depth 5 --json").json["paper"] == ""


@pytest.mark.parametrize(
    ("arguments", "export"),
    {
        "lab": "cannot be exported to Hugging Face: GPT-2: norm_position=post (pre fits)",
        "mini": "goes to Hugging Face as LlamaForCausalLM",
        "mini --attention bidirectional": "goes to Hugging Face as EuroBertForMaskedLM",
        "mini --head classifier": "EuroBERT: attention=causal (bidirectional fits)",
        "bert-base": "goes to Hugging Face as BertForPreTraining",
        "bert-base --head lm": "goes to Hugging Face as BertForMaskedLM",
        "vaswani-base": "goes to Hugging Face as MarianMTModel",
    }.items(),
)
def test_it_is_said_what_can_be_exported(arguments: str, export: str) -> None:
    assert export in succeed(f"params {arguments} --json").json["export"]
    assert export.split(":")[0] in succeed(f"params {arguments}").out


def test_flags_change_a_preset() -> None:
    one = succeed("params lab --depth 1 --json").json["total"]
    two = succeed("params lab --depth 2 --json").json["total"]
    four = succeed("params lab --json").json["total"]
    assert four - two == 2 * (two - one)


def test_every_layer_has_its_formula_and_number() -> None:
    shown = succeed("params lab").out
    assert "V·D" in shown
    assert "10,000,200" in shown
    assert "21,018,401" in shown


def test_a_run_is_counted_with_the_head_it_has(base: Path, warm: Path) -> None:
    bare = succeed("params {run} --json", run=base).json["total"]
    body = succeed("params {run} --head none --json", run=base).json["total"]
    whole = succeed("params {run} --json", run=warm).json["total"]
    width, classes = read(warm / "config.json")["model"]["width"], 2
    assert whole == body + width * classes + classes
    assert bare >= body


def test_a_frozen_run_trains_its_head_alone(world: World, base: Path, here: Path) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    succeed(f"finetune --from {base} --frozen {files} -o frozen --epochs 1 {MACHINE}")
    found = succeed("params frozen --json").json
    assert found["trainable"] == read(here / "frozen/config.json")["model"]["width"] * 2 + 2
    assert found["total"] > found["trainable"]


@pytest.mark.parametrize(("word", "meant"), [("labb", "lab"), ("bert_base", "bert-base")])
def test_an_unknown_preset_gets_a_suggestion(word: str, meant: str) -> None:
    said = refuse(f"params {word}")
    assert repr(word) in said
    assert f"did you mean '{meant}'?" in said


@pytest.mark.parametrize("flags", ["--head lm", "--frozen"])
def test_a_translator_has_no_head_to_choose(flags: str) -> None:
    found = run(f"params vaswani-base {flags}")
    assert found.code == 2
    assert "counted whole" in found.err
