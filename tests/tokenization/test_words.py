import tokenizers
from tokenizers import models, pre_tokenizers

from warmstart.tokenization.backends import JsonTokenizer
from warmstart.tokenization.loading import train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import word_table

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
