"""`pretrain --objective masked` as a user meets it."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from command_line import (
    MACHINE,
    QUICK,
    TINY,
    World,
    read,
    refuse,
    stop_at,
    succeed,
    weights_of,
)
from warmstart.model.models import LanguageModel
from warmstart.settings.model import PRESETS

MASKED = TINY.replace("--objective causal", "--objective masked --nsp --mask-rate 0.15")
MASKED = MASKED.replace("--max-length 16", "--max-length 24")
FIGURES = {"loss", "mlm_loss", "mlm_accuracy", "pseudo_perplexity"}
PAIRED = FIGURES | {"nsp_loss", "nsp_accuracy"}


@pytest.fixture(scope="session")
def paired(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "paired"
    succeed(f"pretrain {world.texts} -o {folder} {MASKED} --save-every 2 --log-every 2")
    return folder


@pytest.fixture(scope="session")
def single(world: World, paired: Path) -> Path:
    folder = paired.parent / "single"
    succeed(f"pretrain {world.texts} -o {folder} {MASKED} --no-nsp --whole-words --mask-rate 0.3")
    return folder


def test_a_run_says_what_it_is(paired: Path, single: Path) -> None:
    for folder, names, segments in ((paired, PAIRED, 2), (single, FIGURES, 0)):
        config, scores = read(folder / "config.json"), read(folder / "scores.json")
        assert config["task"] == "masked"
        assert config["model"]["attention"] == "bidirectional"
        assert config["model"]["segments"] == segments
        assert config["model"]["pooler"] == (segments == 2)
        assert set(scores["valid"]) == names | {"step"}
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        last = json.loads(lines[-1])
        assert {f"valid_{name}" for name in names} <= set(last)
        card = (folder / "README.md").read_text()
        assert "pipeline_tag: fill-mask" in card
        assert "masked tokens restored" in card
        assert "bits per byte" not in card
        assert not (folder / "cache").exists()


def test_the_parameters_are_those_of_the_run(paired: Path, single: Path) -> None:
    for folder in (paired, single):
        held = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
        assert succeed(f"params {folder} --json").json["total"] == held


def test_bert_base_has_the_parameters_of_the_paper() -> None:
    with torch.device("meta"):
        model = LanguageModel(PRESETS["bert-base"], has_next_sentence=True)
    assert sum(parameter.numel() for parameter in model.parameters()) == 110_106_428


def test_the_end_says_both_accuracies(world: World, here: Path) -> None:
    ran = succeed(f"pretrain {world.texts} -o run {MASKED}")
    assert "of masked tokens restored" in ran.out
    assert "next sentence judged right" in ran.out
    assert "bits per byte" not in ran.out
    seen = read(here / "run/scores.json")["tokens_seen"]
    assert 0.5 * 6 * 48 < seen <= 6 * 48  # rows of 24; padding does not count


def test_tokens_asked_for_are_tokens_seen_without_padding(world: World, here: Path) -> None:
    succeed(f"pretrain {world.texts} -o run {MASKED.replace('--steps 6', '--tokens 3000')}")
    seen = read(here / "run/scores.json")["tokens_seen"]
    assert 3000 * 0.97 < seen < 3000 * 1.05


@pytest.mark.parametrize("micro", [24, 48])
def test_the_size_of_a_pass_changes_rounding_alone(
    micro: int, world: World, paired: Path, here: Path
) -> None:
    succeed(f"pretrain {world.texts} -o run {MASKED} --micro-tokens {micro}")
    mine, theirs = (load_file(f / "model.safetensors") for f in (here / "run", paired))
    for name, tensor in theirs.items():  # Adam turns tiny gradients into whole steps
        torch.testing.assert_close(mine[name], tensor, rtol=1e-3, atol=3e-4)


@pytest.mark.parametrize(
    "flag", ["--no-nsp", "--whole-words", "--mask-rate 0.2", "--document-loss 0.5"]
)
def test_a_changed_setting_is_refused_by_name(flag: str, world: World, paired: Path) -> None:
    assert flag.split()[0].replace("--no-", "--") in refuse(
        f"pretrain {world.texts} -o {paired} {MASKED} --resume {flag}"
    )


@pytest.mark.parametrize(
    "flag",
    ["--nsp", "--whole-words", "--mask-rate 0.2", "--document-loss 1", "--semantic-start"],
)
def test_a_flag_without_effect_is_refused(flag: str, world: World, here: Path) -> None:
    said = refuse(f"pretrain {world.texts} -o run {TINY} {flag}")
    assert flag.split()[0] in said
    assert "--objective masked" in said
    assert not (here / "run").exists()


def test_documents_are_learned_on_a_cpu_except_with_pairs(
    world: World, paired: Path, single: Path, here: Path
) -> None:
    for folder, weight in ((paired, 0.0), (single, 1.0)):
        in_force = read(folder / "config.json")["in_force"]
        assert in_force["document_loss"] == {"value": weight, "chosen": "by default"}
    other = "--no-nsp --whole-words --mask-rate 0.3 --document-loss 0"
    succeed(f"pretrain {world.texts} -o run {MASKED} {other}")
    assert weights_of(here / "run") != weights_of(single)
    assert {name: t.shape for name, t in load_file(here / "run/model.safetensors").items()} == {
        name: t.shape for name, t in load_file(single / "model.safetensors").items()
    }


def test_a_second_stage_keeps_the_document_loss_of_the_first(
    world: World, paired: Path, single: Path, here: Path
) -> None:
    shape = "--steps 2 --batch-tokens 48 --no-nsp"
    for folder, weight in ((paired, 0.0), (single, 1.0)):
        succeed(f"pretrain {world.texts} --from {folder} -o {folder.name} {shape} {MACHINE}")
        in_force = read(here / folder.name / "config.json")["in_force"]
        assert in_force["document_loss"]["value"] == weight


def test_embeddings_that_exist_are_not_started_anew(world: World, single: Path, here: Path) -> None:
    assert f"--semantic-start has no effect with --from {single}" in refuse(
        f"pretrain {world.texts} --from {single} -o run --semantic-start"
    )


def test_documents_and_pairs_are_refused_together(world: World, here: Path) -> None:
    said = refuse(f"pretrain {world.texts} -o run {MASKED} --document-loss 0.5")
    assert "--document-loss 0.5" in said
    assert "--nsp" in said


def test_one_document_is_refused_with_the_way_out(here: Path) -> None:
    lines = [f"The book number {n} is good. I liked its end." for n in range(60)]
    (here / "novel.txt").write_text("\n".join(lines) + "\n")
    said = refuse(f"pretrain novel.txt -o run {MASKED} --document blank")
    assert "novel.txt" in said
    assert "--document line" in said
    assert "--nsp" in said
    assert not (here / "run").exists()
    succeed(f"pretrain novel.txt -o lines {MASKED} --document line")
    succeed(f"pretrain novel.txt -o rows {MASKED} --document blank --no-nsp --valid novel.txt")


def test_a_long_document_held_out_in_parts_is_still_one(here: Path) -> None:
    """Passages of a long document are held out from its middle."""
    lines = [f"Chapter {n} of the book is very long indeed. It goes on." for n in range(9000)]
    (here / "novel.txt").write_text("\n".join(lines) + "\n")
    assert "only one document" in refuse(f"pretrain novel.txt -o run {MASKED} --document blank")


def test_documents_of_one_sentence_are_refused(here: Path) -> None:
    (here / "lines.txt").write_text("".join(f"the book number {n}\n" for n in range(90)))
    said = refuse(f"pretrain lines.txt -o run {MASKED}")
    assert "single sentence" in said
    assert "--nsp" in said


def test_a_validation_file_of_one_document_is_refused(world: World, here: Path) -> None:
    (here / "valid.txt").write_text("One review. It is short.\n")
    assert "valid.txt" in refuse(f"pretrain {world.texts} --valid valid.txt -o run {MASKED}")


def test_pairs_need_room(world: World, here: Path) -> None:
    assert "--max-length 4" in refuse(f"pretrain {world.texts} -o run {MASKED.replace('24', '4')}")
    assert not (here / "run").exists()


def test_a_second_stage_keeps_the_shape(world: World, paired: Path, here: Path) -> None:
    stage = f"pretrain {world.texts} --from {paired} -o run --steps 2 --batch-tokens 48 {MACHINE}"
    ran = succeed(f"{stage} --nsp")
    assert " new" not in ran.err
    assert "attention was" not in ran.err
    assert read(here / "run/config.json")["model"] == read(paired / "config.json")["model"]
    before, after = (load_file(f / "model.safetensors") for f in (paired, here / "run"))
    assert not torch.equal(before["next_sentence.weight"], after["next_sentence.weight"])


def test_a_second_stage_without_pairs_leaves_their_head_alone(
    world: World, paired: Path, here: Path
) -> None:
    stage = f"pretrain {world.texts} --from {paired} -o run --steps 4 --batch-tokens 48 {MACHINE}"
    command = f"{stage} --objective masked --no-nsp"
    stop_at(2, command)
    succeed(f"{command} --resume")
    before, after = (load_file(f / "model.safetensors") for f in (paired, here / "run"))
    assert set(before) == set(after)
    for name, tensor in before.items():
        is_left = name.startswith(("next_sentence.", "backbone.pooler."))
        assert torch.equal(tensor, after[name]) == is_left, name


def test_a_causal_run_goes_on_masked_and_back(world: World, base: Path, here: Path) -> None:
    stage = f"pretrain {world.texts} --steps 2 --batch-tokens 64 {MACHINE}"
    assert "--nsp" in refuse(f"{stage} --from {base} -o run --nsp")
    ran = succeed(f"{stage} --from {base} -o masked --objective masked --no-nsp")
    assert "attention was causal and is now bidirectional" in ran.err
    assert read(here / "masked/config.json")["model"]["attention"] == "bidirectional"
    ran = succeed(f"{stage} --from masked -o causal --objective causal")
    assert "attention was bidirectional and is now causal" in ran.err
    assert read(here / "causal/config.json")["model"]["attention"] == "causal"
    assert read(here / "causal/config.json")["task"] == "causal"


def test_a_tokenizer_without_a_mask_gets_one(world: World, here: Path) -> None:
    succeed(f"tokenizer {world.texts} -o words --vocab-size 300")
    spec = read(here / "words/tokenizer.json")
    spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] != "<mask>"]
    vocab = spec["model"]["vocab"]
    vocab["unused"] = vocab.pop("<mask>")
    (here / "words/tokenizer.json").write_text(json.dumps(spec))
    options = MASKED.replace("--vocab-size 300", "--tokenizer words")
    succeed(f"pretrain {world.texts} -o run {options}")
    assert read(here / "run/config.json")["model"]["vocab_size"] == 301
    causal = TINY.replace("--vocab-size 300", "--tokenizer words")
    succeed(f"pretrain {world.texts} -o causal {causal}")
    stage = f"pretrain {world.texts} --from causal -o on --steps 2 {MACHINE}"
    assert "no mask token" in refuse(f"{stage} --objective masked --no-nsp")


def test_evaluation_gives_the_figures_of_the_validation(
    world: World, here: Path, tmp_path: Path
) -> None:
    lines = Path(world.texts).read_text(encoding="utf-8").splitlines()
    (here / "held.txt").write_text("\n".join(lines[:40]) + "\n", encoding="utf-8")
    for more in ("", "--no-nsp"):
        shutil.rmtree("run", ignore_errors=True)
        succeed(f"pretrain {world.texts} --valid held.txt -o run {MASKED} {more}")
        found = succeed(f"evaluate run --test held.txt --json {MACHINE}").json
        valid = read(here / "run/scores.json")["valid"]
        for name in FIGURES if more else PAIRED:
            assert found[name] == pytest.approx(valid[name], rel=1e-5), name
        assert "bits_per_byte" not in found
        for name, one in found["intervals"].items():
            assert one["low"] <= found[name] <= one["high"]
    shown = succeed(f"evaluate run --test held.txt {MACHINE}").out
    assert "95% interval of mlm accuracy" in shown


def test_one_document_is_evaluated_on_masked_tokens_alone(paired: Path, here: Path) -> None:
    (here / "one.txt").write_text("A review. It has two sentences, and one more. That is all.\n")
    ran = succeed(f"evaluate {paired} --test one.txt --json {MACHINE}")
    assert set(ran.json) & PAIRED == FIGURES
    assert "no segments to pair" in ran.err


def test_a_masked_run_writes_no_text(paired: Path) -> None:
    assert "a masked language model" in refuse(f"generate {paired} --prompt The")


def test_fine_tuning_on_the_first_position_uses_the_pooler(
    world: World, paired: Path, here: Path
) -> None:
    command = f"finetune --from {paired} --train {world.train} --valid {world.valid} {QUICK}"
    ran = succeed(f"{command} --pooling cls -o first")
    assert "next_sentence.weight" in ran.err  # left out, and said
    succeed(f"{command} --pooling cls --frozen -o frozen")
    pretrained = load_file(paired / "model.safetensors")
    first, frozen = (load_file(here / n / "model.safetensors") for n in ("first", "frozen"))
    for name in ("backbone.pooler.weight", "backbone.embed_segments.weight"):
        assert torch.equal(frozen[name], pretrained[name])  # loaded
    assert not torch.equal(
        first["backbone.pooler.weight"], pretrained["backbone.pooler.weight"]
    )  # used


@pytest.mark.slow
def test_hidden_words_and_next_sentences_are_learned(here: Path) -> None:
    """Each document speaks of one family of things, and its words come in fixed pairs."""
    random = Random(0)
    things = ["".join(random.choices("abcdefghijklmnop", k=4)) for _ in range(16)]

    def sentence(family: int) -> str:
        words = random.choices(things[4 * family : 4 * family + 4], k=2)
        return " ".join(f"{word} {word}" for word in words) + "."

    def document() -> str:
        family = random.randrange(4)
        return " ".join(sentence(family) for _ in range(6))

    for name, num in (("texts", 1000), ("valid", 200)):
        (here / f"{name}.txt").write_text("".join(f"{document()}\n" for _ in range(num)))
    succeed(
        "pretrain texts.txt --valid valid.txt -o run --nsp --mask-rate 0.15 --preset tiny "
        "--width 64 --depth 2 --heads 4 --ffn-width 128 --vocab-size 330 --max-length 32 "
        f"--steps 180 --batch-tokens 1280 --learning-rate 0.012 {MACHINE}"
    )
    valid = read(here / "run/scores.json")["valid"]
    assert valid["mlm_accuracy"] > 0.6  # a fifth or so are full stops, the rest words
    assert valid["nsp_accuracy"] > 0.75  # a quarter of the negative pairs are of the same family
