"""`fill-mask`: probable words for masked ones."""

import json
from pathlib import Path

import pytest
import torch

import warmstart
from command_line import MACHINE, refuse, run, succeed
from warmstart.tasks.mask_filler import MaskFiller, encode_masked, split_at_masks

TEXTS = ["A [MASK] book.", "", "This <mask> is [MASK].", "The [MASK]"]


@pytest.fixture(scope="module")
def filler(masked: Path) -> MaskFiller:
    loaded = warmstart.load(masked, threads=1)
    assert isinstance(loaded, MaskFiller)
    return loaded


def test_every_mask_gets_its_most_probable_words(filler: MaskFiller) -> None:
    filled = filler.fill_mask(TEXTS, top_k=7)
    assert [len(text.masks) for text in filled] == [1, 0, 2, 1]
    for text, result in zip(TEXTS, filled, strict=True):
        for choices in result.masks:
            shares = [choice.probability for choice in choices]
            assert len(shares) == 7
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1
        if text:
            ids = encode_masked(filler.tokenizer, split_at_masks(filler.tokenizer, text))
            row = torch.tensor([[filler.tokenizer.bos, *ids, filler.tokenizer.eos]])
            with torch.inference_mode():
                shares = filler.model(row).softmax(-1)[row == filler.tokenizer.mask]
            found = [choices[0].probability for choices in result.masks]
            special = [0, 1, 2, 3, 4]
            best = shares.index_fill(1, torch.tensor(special), 0).amax(1)
            assert found == pytest.approx(best.tolist(), abs=1e-6)


def test_words_do_not_depend_on_the_other_texts(filler: MaskFiller) -> None:
    for together, text in zip(filler.fill_mask(TEXTS), TEXTS, strict=True):
        alone = filler.fill_mask([text])[0]
        assert alone.text == together.text
        for mine, theirs in zip(alone.masks, together.masks, strict=True):
            shares = [choice.probability for choice in theirs]
            assert [c.probability for c in mine] == pytest.approx(shares, abs=1e-6)


def test_special_tokens_are_never_offered(filler: MaskFiller) -> None:
    words = {
        choice.word
        for text in filler.fill_mask(TEXTS, top_k=10_000)
        for choices in text.masks
        for choice in choices
        if choice.probability > 0
    }
    assert words.isdisjoint({"<s>", "<pad>", "</s>", "<unk>", "<mask>"})


def test_the_best_words_stand_in_the_text(filler: MaskFiller) -> None:
    result = filler.fill_mask(["This <mask> is [MASK]."])[0]
    first, second = (choices[0].word for choices in result.masks)
    assert result.text == f"This {first} is {second}."


def test_a_file_a_stream_and_one_text_give_the_same(masked: Path, here: Path) -> None:
    (here / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    command = f"fill-mask {masked} {MACHINE}"
    from_file = succeed(f"{command} texts.txt --json").out
    assert succeed(f"{command} --json", ("\n".join(TEXTS) + "\n").encode()).out == from_file
    one = succeed(f"{command} --json --text 'A [MASK] book.'").json
    listed = json.loads(from_file.splitlines()[0])
    assert one["text"] == listed["text"]
    succeed(f"{command} texts.txt -o filled.txt")
    lines = (here / "filled.txt").read_text().splitlines()
    assert [line.count("\t") for line in lines] == [0, 0, 1, 0]
    assert not lines[1]


def test_top_k_is_the_number_of_words(masked: Path) -> None:
    filled = succeed(f"fill-mask {masked} --json --top-k 2 --text 'A [MASK] book.'").json
    assert [len(choices) for choices in filled["masks"]] == [2]


def test_the_verb_in_python(masked: Path) -> None:
    filled = warmstart.fill_mask(run=masked, text="A [MASK] book.", top_k=3, precision="fp32")
    assert [len(choices) for choices in filled[0].masks] == [3]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--text 'A fine book.'", "text 1, which begins 'A fine book.', has no masked word"),
        ("--text ' '", "--text is empty"),
        ("--top-k 0 --text '[MASK]'", "--top-k 0"),
        (f"--text '{'word ' * 50}[MASK]'", "a masked word is not among them"),
    ],
)
def test_what_cannot_be_filled_is_refused(masked: Path, arguments: str, named: str) -> None:
    assert named in refuse(f"fill-mask {masked} {arguments}")


def test_the_number_of_a_bad_text_is_its_line(masked: Path) -> None:
    ran = run(f"fill-mask {masked}", b"A [MASK] book.\n\nno mask here\n")
    assert "text 3" in ran.said


@pytest.mark.parametrize("kind", ["base", "warm"])
def test_other_runs_are_refused(kind: str, request: pytest.FixtureRequest) -> None:
    assert "to fill masks you need a masked language model" in refuse(
        f"fill-mask {request.getfixturevalue(kind)} --text 'A [MASK] book.'"
    )
