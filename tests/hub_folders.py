"""Folders as transformers writes them: small random models of every family, with vocabularies."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers

TEXTS = (
    "Hello, world! 3.14 isn't 1,000,000.",
    "L'été, à Noël, le cœur naïf des garçons — « déjà » ?",
    "  two  spaces,\ttabs and\nnew lines  ",
    "Straße, ÆØÅ, İstanbul, ﬁne ligatures, e\u0301 and é, Ⅷ ½ ①",
    "漢字とかな、中文字符。한국어 문장",
    "Привет, мир! Ελληνικά עברית العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🎉 🇫🇷 zero\u200bwidth \u00a0 no\u00adbreak",
    "the book is good, the book is bad",
)
LEARN = [*TEXTS, *(f"the book number {i} is good and the story is long" for i in range(50))]
LLAMA = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
LABELS = {
    "id2label": {0: "bad", 1: "good", 2: "so so"},
    "label2id": {"bad": 0, "good": 1, "so so": 2},
}

Saver = Callable[..., Path]


def write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def write_wordpieces(folder: Path) -> int:
    """Write a vocab.txt and return its size."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({c for text in LEARN for c in text.lower() if not c.isspace()})
    words = ["the", "book", "is", "good", "##ood", "hell", "##o", *(f"##{c}" for c in letters)]
    pieces = list(dict.fromkeys([*marks, *letters, *words]))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True},
    )
    return len(pieces)


def write_byte_level(folder: Path, marks: list[str], settings: dict[str, Any]) -> int:
    """Write a byte-level tokenizer.json with special tokens first, and return its size."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=marks,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(LEARN, trainer)
    library.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", settings)
    return int(library.get_vocab_size())


def piece_model(kind: str, byte_fallback: bool, **settings: Any) -> bytes:
    """Return a small SentencePiece model."""
    import sentencepiece

    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LEARN * 4),
        model_writer=stream,
        vocab_size=400,
        model_type=kind,
        byte_fallback=byte_fallback,
        minloglevel=2,
        hard_vocab_limit=False,
        **settings,
    )
    return stream.getvalue()


def _tokenizer_files(family: str, folder: Path) -> int:
    if family in ("bert", "distilbert", "electra"):
        return write_wordpieces(folder)
    if family in ("roberta", "camembert", "modernbert"):
        marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        names = dict(zip(("bos", "pad", "eos", "unk", "mask"), marks, strict=True))
        return write_byte_level(folder, marks, {f"{k}_token": v for k, v in names.items()})
    if family == "gpt2":
        mark = "<|endoftext|>"
        roles = ("bos_token", "eos_token", "unk_token")
        return write_byte_level(folder, [mark], dict.fromkeys(roles, mark))
    (folder / "tokenizer.model").write_bytes(piece_model("bpe", True, **LLAMA))
    write_json(folder / "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>"})
    import sentencepiece

    return len(sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model")))


def config_for(family: str, vocab_size: int, **changes: Any) -> Any:
    """Return a small transformers config."""
    transformers = pytest.importorskip("transformers")
    if family == "gpt2":
        given = {
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": 64,
            "vocab_size": vocab_size,
        }
        given |= {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        return transformers.GPT2Config(**{**given, **changes})
    given = {**SIZES, "vocab_size": vocab_size, "intermediate_size": 24}
    if family == "llama":
        given |= {"max_position_embeddings": 64, "pad_token_id": 0}
        return transformers.LlamaConfig(**{**given, **changes})
    if family == "modernbert":
        marks = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        marks |= {"cls_token_id": 0, "sep_token_id": 2}
        small = {"max_position_embeddings": 64, "num_hidden_layers": 4, "local_attention": 8}
        return transformers.ModernBertConfig(**{**given, **marks, **small, **changes})
    if family == "distilbert":
        sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "vocab_size": vocab_size}
        return transformers.DistilBertConfig(**{**sizes, "max_position_embeddings": 64, **changes})
    if family in ("bert", "electra"):
        given |= {"max_position_embeddings": 64, "pad_token_id": 0, "embedding_size": 16}
        name = {"bert": "BertConfig", "electra": "ElectraConfig"}[family]
        return getattr(transformers, name)(**{**given, **changes})
    given |= {"max_position_embeddings": 66, "pad_token_id": 1, "type_vocab_size": 1}
    name = {"roberta": "RobertaConfig", "camembert": "CamembertConfig"}[family]
    return getattr(transformers, name)(**{**given, **changes})


def save_random(folder: Path, family: str, architecture: str, **changes: Any) -> Path:
    """Save a random model of an architecture, with a vocabulary, as transformers does."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    vocab_size = _tokenizer_files(family, folder)
    dtype = changes.pop("dtype", torch.float32)
    if architecture.endswith("Classification"):
        changes = {**LABELS, **changes}
    torch.manual_seed(1)
    model = getattr(transformers, architecture)(config_for(family, vocab_size, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    model.to(dtype).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saver:
    """Return a function that saves a random model of an architecture and names its folder."""

    def save(family: str, architecture: str, **changes: Any) -> Path:
        return save_random(tmp_path_factory.mktemp(architecture), family, architecture, **changes)

    return save
