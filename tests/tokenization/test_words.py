"""Words in token ids: where they begin, and where each token is in its text."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from warmstart.tokenization.backends import JsonTokenizer, load_tokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import find_spans, word_table

LINE = "l'histoire extraordinaire, vraiment ! 这本书很好。"


def _words(tokenizer: Tokenizer, text: str) -> list[str]:
    table = word_table(tokenizer)
    (ids,) = tokenizer.encode([text])
    words: list[list[int]] = []
    for place, index in enumerate(ids):
        if not words or table.begins[index] or table.alone[ids[place - 1]]:
            words.append([])
        words[-1].append(index)
    found = [tokenizer.decode(word).strip() for word in words]
    return [word for word in found if word]  # a space may be a piece


def test_pieces_of_a_word_are_found_together() -> None:
    short = train_tokenizer(["livre " * 3] * 9, "bpe", 262)  # knows hardly more than bytes
    assert _words(short, "extraordinaire, vraiment !") == ["extraordinaire", ",", "vraiment", "!"]
    assert _words(short, "l'histoire") == ["l", "'", "histoire"]


def test_scripts_without_spaces_are_cut_into_pieces() -> None:
    tokenizer = train_tokenizer([LINE] * 30, "bpe", 400)
    assert len(_words(tokenizer, "这本书很好。")) == len(tokenizer.encode(["这本书很好。"])[0])


def test_wordpiece() -> None:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "book", "##ish", "##ly", "."]
    model = models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = JsonTokenizer(library.to_str().encode())
    table = word_table(tokenizer)
    assert [bool(table.begins[i]) for i in (5, 6, 7, 8)] == [True, False, False, True]
    assert [bool(table.alone[i]) for i in (5, 6, 7, 8)] == [False, False, False, True]


SENTENCES = [
    "The bank raised rates.",
    "Été à la plage, déjà vu!",
    "日本語の文 🤗",
    "bank bank bank",
]
BPE = train_tokenizer(["the bank of the river"], "bpe", 300)
UNIGRAM = train_tokenizer(["the bank of the river " * 3], "unigram", 270)


@pytest.mark.parametrize("tokenizer", [BPE, UNIGRAM], ids=["bpe", "unigram"])
@pytest.mark.parametrize("text", SENTENCES)
def test_spans_give_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode([text])[0]
    spans = find_spans(tokenizer, text, ids)
    assert len(spans) == len(ids)
    covered = {place for a, b in spans for place in range(a, b)}
    assert covered >= {place for place, char in enumerate(text) if not char.isspace()}
    assert spans == sorted(spans)


@given(st.text(max_size=30))
def test_any_text_has_spans_inside_it(text: str) -> None:
    ids = BPE.encode([text])[0]
    spans = find_spans(BPE, text, ids)
    assert len(spans) == len(ids)
    assert all(0 <= a <= b <= len(text) for a, b in spans)


def test_words_whose_case_and_accents_a_tokenizer_drops(tmp_path: Path) -> None:
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ban", "##k", "ete", "river"]
    library = tokenizers.Tokenizer(
        models.WordPiece({v: i for i, v in enumerate(vocab)}, unk_token="[UNK]")
    )
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    text = "Été: BANK zzz River"
    ids = tokenizer.encode([text])[0]
    spans = dict(zip(tokenizer.pieces(ids), find_spans(tokenizer, text, ids), strict=True))
    assert text[slice(*spans["ban"])] == "BAN"
    assert text[slice(*spans["##k"])] == "K"
    assert text[slice(*spans["ete"])] == "Été"
    assert text[slice(*spans["river"])] == "River"
