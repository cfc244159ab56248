import io
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from warmstart.data.corpus import Passage
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import encode_passages
from warmstart.tokenization.backends import (
    HALF,
    JsonTokenizer,
    SentencePieceTokenizer,
    train_tokenizer,
)
from warmstart.tokenization.tokenizer import Tokenizer

TEXTS = [
    "Le roman est bon. La fin est triste ! Vraiment ? Oui… Il a 3.14 pages.",
    'He said: "Stop." Then he left. (It was late.) The end',
    "« Bonjour. » dit-il. M. Dupont entra. Ah ! quel livre.",
    "这本书很好。我喜欢它！你呢？好。",
]
WANTED = {
    "Bon. Triste.": ["Bon.", "Triste."],
    "Le roman est bon. La fin ! Oui ? Il a fini": [
        "Le roman est bon.",
        "La fin !",
        "Oui ?",
        "Il a fini",
    ],
    "Il a 3.14 pages. La fin": ["Il a 3.14 pages.", "La fin"],
    'He said: "Stop." Then he left.': ['He said: "Stop."', "Then he left."],
    "(It was late.) The end": ["(It was late.)", "The end"],
    "« Bonjour. » Il entra.": ["« Bonjour. »", "Il entra."],
    "Ah ! quel livre. Oui": ["Ah ! quel livre.", "Oui"],
    "Non !... Si": ["Non !...", "Si"],
    "Quoi ? ! Oui": ["Quoi ? !", "Oui"],
    "M. Dupont entra. Oui": ["M. Dupont entra.", "Oui"],
    "这本书很好。我喜欢它！你呢": ["这本书很好。", "我喜欢它！", "你呢"],
    "no stop at all": ["no stop at all"],
}


def _byte_level(kind: str) -> Tokenizer:
    return train_tokenizer([*TEXTS, *WANTED] * 20, kind, 700)


def _sentencepiece() -> Tokenizer:
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, *WANTED] * 20),
        model_writer=stream,
        vocab_size=200,
        minloglevel=2,
        hard_vocab_limit=False,
        character_coverage=1.0,
    )
    return SentencePieceTokenizer(stream.getvalue())


def _wordpiece() -> Tokenizer:
    library = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=False)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=marks, show_progress=False, min_frequency=1
    )
    library.train_from_iterator([*TEXTS, *WANTED], trainer)
    return JsonTokenizer(library.to_str().encode())


TOKENIZERS = {
    "bpe": lambda: _byte_level("bpe"),
    "unigram": lambda: _byte_level("unigram"),
    "sentencepiece": _sentencepiece,
    "wordpiece": _wordpiece,
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TOKENIZERS[request.param]()


def _split(tokenizer: Tokenizer, *rows: str) -> list[str]:
    """Return the sentences of a text, spaces left out: tokenizers differ in them."""
    passage = Passage(rows, continues=False)
    (ids,), (starts,) = encode_passages([passage], tokenizer, SentenceFinder(tokenizer))
    edges = [*starts.tolist(), len(ids)]
    parts = [tokenizer.decode(ids[a:b]) for a, b in pairwise(edges)]
    return ["".join(part.split()) for part in parts]


@pytest.mark.parametrize("text", WANTED)
def test_sentences_end_where_a_reader_ends_them(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    if any(HALF in piece for piece in tokenizer.pieces(ids)):
        pytest.skip("this vocabulary has no whole piece for one of the characters")
    wanted = ["".join(part.split()) for part in WANTED[text]]
    if tokenizer.kind == "sentencepiece":  # reads full-width marks as plain ones
        wanted = [unicodedata.normalize("NFKC", part) for part in wanted]
    assert _split(tokenizer, text) == wanted


def test_a_line_end_always_ends_a_sentence(tokenizer: Tokenizer) -> None:
    assert _split(tokenizer, "le roman", "la fin", "est triste") == [
        "leroman",
        "lafin",
        "esttriste",
    ]


def test_a_vocabulary_without_capitals_needs_none() -> None:
    tokenizer = train_tokenizer(["le roman est bon. la fin est triste."] * 50, "bpe", 300)
    assert _split(tokenizer, "le roman est bon. la fin") == ["leromanestbon.", "lafin"]


_TOGETHER = _byte_level("bpe")


@given(
    st.lists(st.lists(st.sampled_from([*WANTED, *TEXTS, "a", '"', "»"]), min_size=1), max_size=6)
)
def test_texts_searched_together_are_searched_alone(texts: list[list[str]]) -> None:
    tokenizer = _TOGETHER
    finder = SentenceFinder(tokenizer)
    passages = [Passage(tuple(rows), continues=False) for rows in texts]
    if not passages:
        return
    ids, starts = encode_passages(passages, tokenizer, finder)
    for passage, found, places in zip(passages, ids, starts, strict=True):
        (alone,), (expected,) = encode_passages([passage], tokenizer, finder)
        assert found == alone
        assert places.tolist() == expected.tolist()
        assert found == tokenizer.encode(["\n".join(passage.rows)])[0]


def test_texts_without_tokens_have_no_sentences() -> None:
    finder = SentenceFinder(_TOGETHER)
    assert finder.find(np.array([5, 6, 7]), [0, 2, 0, 1, 0]).tolist() == [False, True, True]
    assert finder.find(np.empty(0, np.int64), [0]).tolist() == []
