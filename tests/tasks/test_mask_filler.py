"""A mask replaces exactly the token of the word that is missing."""

from pathlib import Path

import pytest

from hub_folders import LEARN, write_wordpieces
from warmstart.tasks.mask_filler import encode_masked, mask_spellings, split_at_masks
from warmstart.tokenization.backends import load_tokenizer, train_json
from warmstart.tokenization.tokenizer import Tokenizer


@pytest.fixture(params=["bpe", "unigram", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> Tokenizer:
    if request.param == "wordpiece":
        pytest.importorskip("transformers")
        write_wordpieces(tmp_path)
        import transformers

        transformers.AutoTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    else:
        (tmp_path / "tokenizer.json").write_text(train_json(LEARN, request.param, 400))
    return load_tokenizer(tmp_path).with_mask()


@pytest.mark.parametrize("spelling", ["[MASK]", "<mask>"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the", " is good"),
        ("the", ", the story"),
        ("the story is", "!"),
        ("good", ""),
        ("", " is good"),
        ("good and", " 3.14 isn't 1,000,000."),
    ],
)
def test_the_rest_of_the_text_keeps_its_tokens(
    before: str, after: str, spelling: str, tokenizer: Tokenizer
) -> None:
    left, left_with_word, whole = tokenizer.encode(
        [before, f"{before} book".strip(), f"{before} book{after}".strip()]
    )
    assert spelling in mask_spellings(tokenizer)
    parts = split_at_masks(tokenizer, f"{before} {spelling}{after}")
    right = whole[len(left_with_word) :]
    assert encode_masked(tokenizer, parts) == [*left, tokenizer.mask, *right]


def test_masks_beside_each_other_are_two(tokenizer: Tokenizer) -> None:
    ids = encode_masked(tokenizer, split_at_masks(tokenizer, "[MASK] <mask>"))
    assert ids == [tokenizer.mask] * 2


def test_a_text_cannot_spell_a_mask_by_accident(tokenizer: Tokenizer) -> None:
    assert tokenizer.mask not in tokenizer.encode(["the [MASK] is <mask>"])[0]
