import io
import lzma
import pickle
import random
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from warmstart.errors import WarmstartError
from warmstart.model.attention_weights import join_word
from warmstart.progress import show_on
from warmstart.tokenization.backends import SentencePieceTokenizer, load_tokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

REAL = Path(__file__).parents[3] / "shared" / "data" / "cls-books-fr"
WORDS = ["le", "la", "un", "une", "livre", "roman", "bon", "très", "histoire", "été", "page"]
MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))
tricky_text = st.lists(
    st.sampled_from([*MARKS, " ", "  ", "\n", "\t", "\0", "▁", "Ġ", "é", "🎉", "livre", "'s"])
).map("".join)


def _sample(seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=8)) + "." for _ in range(200)]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def trained(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(_sample(), request.param, 330)


@pytest.fixture(scope="module")
def model_bytes() -> bytes:
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sample()),
        model_writer=stream,
        vocab_size=60,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return stream.getvalue()


@given(any_text | tricky_text)
def test_decode_inverts_encode(trained: Tokenizer, text: str) -> None:
    (ids,) = trained.encode([text])
    assert trained.decode(ids) == text
    assert trained.decode([trained.bos, *ids, trained.eos, trained.pad]) == text
    assert all(5 <= index < trained.vocab_size for index in ids)  # no mark can be forged


def test_own_special_ids(trained: Tokenizer) -> None:
    t = trained
    assert (t.bos, t.pad, t.eos, t.unk, t.mask) == (0, 1, 2, 3, 4)
    assert t.pieces(range(5)) == MARKS
    assert t.vocab_size <= 330
    assert t.with_mask() is t


def test_first_word_has_the_pieces_it_has_inside(trained: Tokenizer) -> None:
    first, inside, start = trained.encode(["livre", "un livre", "un"])
    assert inside == start + first
    assert "".join(trained.pieces(inside)) == "▁un▁livre"


def test_texts_do_not_touch_each_other(trained: Tokenizer) -> None:
    texts = ["", "un", "une fin", ""]
    assert trained.encode(texts) == [trained.encode([text])[0] for text in texts]
    assert trained.encode([]) == []
    assert trained.encode([""]) == [[]]


def test_save_and_load_keep_everything(trained: Tokenizer, tmp_path: Path) -> None:
    trained.save(tmp_path / "run")
    for path in (tmp_path / "run", tmp_path / "run" / "tokenizer.json"):
        loaded = load_tokenizer(path)
        assert loaded.fingerprint() == trained.fingerprint()
        assert (loaded.kind, loaded.vocab_size) == (trained.kind, trained.vocab_size)
        assert loaded.encode(_sample(1)) == trained.encode(_sample(1))
        assert loaded.encode(["</s>"]) == trained.encode(["</s>"])
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["tokenizer.json"]


def test_another_process_reads_a_text_alike(trained: Tokenizer, model_bytes: bytes) -> None:
    for tokenizer in (trained, trained.with_mask(), SentencePieceTokenizer(model_bytes)):
        tokenizer.has_start = False
        sent = pickle.loads(pickle.dumps(tokenizer))
        tokenizer.has_start = True
        assert sent.start == []
        assert sent.fingerprint() == tokenizer.fingerprint()
        texts = [*_sample(1), "it spells out </s> and <mask>"]
        assert sent.encode(texts) == tokenizer.encode(texts)


def test_the_same_text_gives_the_same_tokenizer(trained: Tokenizer) -> None:
    again = train_tokenizer(iter(_sample()), trained.kind, 330)
    assert again.fingerprint() == trained.fingerprint()
    other = train_tokenizer([*_sample(), "zèbre zèbre"], trained.kind, 330)
    assert other.fingerprint() != trained.fingerprint()


class _Lines(list[str]):
    def say(self, line: str) -> None:
        self.append(line)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [[" "], ["", "a b c"], ["été été été"] * 3])
def test_little_text_gives_a_smaller_vocabulary_and_says_so(kind: str, texts: list[str]) -> None:
    lines = _Lines()
    with show_on(lines):  # type: ignore[arg-type]
        made = train_tokenizer(texts, kind, 5000)
    assert 261 <= made.vocab_size < 300
    assert f"{made.vocab_size} pieces, fewer than the 5,000 requested" in lines[0]
    assert made.decode(made.encode(["tout autre 🎉"])[0]) == "tout autre 🎉"


def test_training_refuses_what_it_cannot_do() -> None:
    with pytest.raises(WarmstartError, match="vocab_size=260 must be at least 261"):
        train_tokenizer(["a"], "bpe", 260)
    with pytest.raises(WarmstartError, match="'words' must be bpe or unigram"):
        train_tokenizer(["a"], "words")
    for kind in ("bpe", "unigram"):
        with pytest.raises(WarmstartError, match="no text to train a tokenizer on"):
            train_tokenizer(["", ""], kind)


# A vocabulary of pieces


def _pieces(folder: Path, content: str, name: str = "dict.txt") -> Path:
    path = folder / name
    path.write_bytes(lzma.compress(content.encode()) if name.endswith("xz") else content.encode())
    return path


@pytest.mark.parametrize("content", ["▁un 9\n▁livre 5\ns 1\n", "▁un\n▁livre\ns"])
@pytest.mark.parametrize("name", ["dict.txt", "dict.txt.xz"])
def test_pieces_come_after_four_specials(tmp_path: Path, content: str, name: str) -> None:
    t = load_tokenizer(_pieces(tmp_path, content, name))
    assert (t.kind, t.vocab_size) == ("pieces", 7)
    assert (t.bos, t.pad, t.eos, t.unk, t.mask) == (0, 1, 2, 3, None)
    assert t.encode(["▁un ▁livre s", "▁deux s", ""]) == [[4, 5, 6], [3, 6], []]
    assert t.decode([0, 4, 5, 6, 2, 1]) == "un livres"
    assert t.pieces([4, 2]) == ["▁un", "</s>"]
    t.save(tmp_path / "run")
    assert load_tokenizer(tmp_path / "run").encode(["▁un s"]) == [[4, 6]]


def test_pieces_cannot_forge_marks(tmp_path: Path) -> None:
    t = load_tokenizer(_pieces(tmp_path, "a\nb\n"))
    assert t.encode(["a </s> <s> <pad> b"]) == [[4, 3, 3, 3, 5]]
    masked = t.with_mask()
    assert (masked.mask, masked.vocab_size, t.vocab_size) == (6, 7, 6)
    assert masked.encode(["a <mask> b"]) == [[4, 3, 5]]
    assert masked.fingerprint() != t.fingerprint()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1\nb 1\na 2\n", r"dict\.txt line 3: the piece a occurs twice"),
        ("a 1\n<s> 1\n", r"dict\.txt line 2: the piece <s>"),
        ("a one\n", r"dict\.txt line 1: 'a one' is not a piece"),
        ("a 1\n\nb 1\n", r"dict\.txt line 2: '' is not a piece"),
        ("a 1 2\n", "line 1: 'a 1 2'"),
        ("a\n[UNK]\n", r"line 2: \[UNK\] belongs to a WordPiece vocabulary"),
        ("", r"dict\.txt: no pieces"),
    ],
)
def test_bad_lists_of_pieces(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(WarmstartError, match=message):
        load_tokenizer(_pieces(tmp_path, content))


# SentencePiece


def test_sentencepiece_lacking_marks_come_last(model_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "fr.model").write_bytes(model_bytes)
    t = load_tokenizer(tmp_path / "fr.model")
    size = t.vocab_size
    assert (t.kind, t.unk, t.bos, t.eos) == ("sentencepiece", 0, 1, 2)
    assert (t.pad, t.mask) == (size - 2, size - 1)
    for text in _sample(2)[:20]:
        (ids,) = t.encode([text])
        assert t.decode([t.bos, *ids, t.eos, t.pad, t.mask]) == text
        assert "".join(t.pieces(ids)) == "▁" + text.replace(" ", "▁")
    assert not {t.bos, t.eos, t.pad, t.mask} & set(t.encode(["<s> </s> <pad> <mask>"])[0])
    t.save(tmp_path / "run")
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == model_bytes
    assert load_tokenizer(tmp_path / "run").fingerprint() == t.fingerprint()


def test_truncated_sentencepiece_is_refused_wherever_it_ends(
    model_bytes: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "cut.model"
    for size in range(0, len(model_bytes), max(1, len(model_bytes) // 300)):
        path.write_bytes(model_bytes[:size])
        with pytest.raises(WarmstartError, match=r"cut\.model: not a SentencePiece model"):
            load_tokenizer(path)


# Tokenizers made by others


def _save(library: tokenizers.Tokenizer, folder: Path) -> Path:
    library.save(str(folder / "tokenizer.json"))
    return folder


def test_bert_style(tmp_path: Path) -> None:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "livre", "##s", "[", "]", "sep"]
    model = models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    library = tokenizers.Tokenizer(model)
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    library.add_special_tokens(names[:5])
    library.enable_truncation(2)  # must not cut texts behind the user's back
    library.enable_padding(length=9)
    t = load_tokenizer(_save(library, tmp_path))
    assert (t.kind, t.vocab_size) == ("wordpiece", 11)
    assert (t.bos, t.eos, t.pad, t.unk, t.mask) == (2, 3, 0, 1, 4)
    assert t.encode(["Un livres un", "[SEP]"]) == [[5, 6, 7, 5], [8, 10, 9]]
    assert t.decode([2, 5, 6, 7, 3, 0]) == "un livres"


def test_gpt2_style_gets_a_pad(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    t = load_tokenizer(_save(library, tmp_path))
    assert (t.bos, t.eos, t.pad, t.unk, t.mask) == (256, 256, 257, None, None)
    assert t.vocab_size == 258
    (ids,) = t.encode(["a<|endoftext|>é"])
    assert 256 not in ids
    assert t.decode([256, *ids, 257]) == "a<|endoftext|>é"
    assert t.with_mask().mask == 258
    t.save(tmp_path / "run")
    assert load_tokenizer(tmp_path / "run").fingerprint() == t.fingerprint()


def test_unigram_with_marks_among_its_pieces(tmp_path: Path) -> None:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), ("a", -1.0)]
    library = tokenizers.Tokenizer(models.Unigram(pieces, 3))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    library.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    t = load_tokenizer(_save(library, tmp_path))
    assert t.encode(["a</s>a"]) == [[4, 5, 3, 5]]
    assert t.decode([0, 4, 5, 2]) == "a"


def test_llama_style_names(tmp_path: Path) -> None:
    library = tokenizers.Tokenizer(models.BPE({"a": 0}, []))
    library.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    t = load_tokenizer(_save(library, tmp_path))
    assert (t.bos, t.eos, t.pad, t.unk) == (1, 2, 3, None)


# What is no tokenizer


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b'{"version": "1.0", ', r"tokenizer\.json: not a tokenizer\.json"),
        ("tokenizer.json", b"\xff\xfe", r"tokenizer\.json: not a tokenizer\.json"),
        ("config.json", b"{}", r"config\.json: not a tokenizer\.json"),
        ("x.model", b"text", r"x\.model: not a SentencePiece model"),
        ("x.bin", b"", r"x\.bin: not a tokenizer by its name"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WarmstartError, match=message) as caught:
        load_tokenizer(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_tokenizers(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        load_tokenizer(tmp_path)
    with pytest.raises(WarmstartError, match=r"absent\.json: cannot be read"):
        load_tokenizer(tmp_path / "absent.json")


@pytest.mark.skipif(not REAL.exists(), reason="the lab's vocabulary is not at hand")
def test_real_vocabulary_of_pieces() -> None:
    t = load_tokenizer(REAL / "dict.txt.xz")
    assert t.vocab_size == 50_001
    spm = load_tokenizer(REAL / "sentencepiece.french.model")
    text = "Un petit livre très utile."
    pieces = " ".join(spm.pieces(spm.encode([text])[0]))
    assert t.decode(t.encode([pieces])[0]) == text == spm.decode(spm.encode([text])[0])


def test_bytes_that_are_no_character_have_a_label() -> None:
    tokenizer = train_tokenizer(["le livre est bon, le film est long"] * 20, "bpe", 270)
    ids = tokenizer.encode(["le été 日"])[0]
    labels = tokenizer.labels(ids)
    assert not any("\ufffd" in label for label in labels)
    assert "<C3>" in labels or "▁<C3>" in labels
    assert join_word(labels[-4:]).endswith("日")
    whole = tokenizer.encode(["le livre"])[0]
    assert tokenizer.labels(whole) == tokenizer.pieces(whole)
