"""A tokenizer as Hugging Face folders spell it: tokenizer.json and the files beside it.

Its post-processor puts the special tokens where our models see them. Knows nothing about weights.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import tokenizers
from tokenizers import processors

from warmstart.errors import WarmstartError
from warmstart.interop.sentencepieces import to_json
from warmstart.runs.saved import Source
from warmstart.tokenization.backends import LibraryBackend
from warmstart.tokenization.tokenizer import Tokenizer

PAD = "<pad>"
PROBES = (
    "Hello, world! 3.14 isn't 1,000,000.",
    "L'été, à Noël, le cœur naïf des garçons — « déjà » ?",
    "  two  spaces,\ttabs and\nnew lines  ",
    "Straße, ÆØÅ, İstanbul, ﬁne ligatures, e\u0301 and é, Ⅷ ½ ①",
    "漢字とかな、中文字符。한국어 문장",
    "Привет, мир! Ελληνικά עברית العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🎉 🇫🇷 zero\u200bwidth \u00a0 no\u00adbreak",
    "",
    "x" * 40,
)


@dataclass(frozen=True)
class Spelling:
    """The files of a tokenizer, and the ids a config repeats."""

    content: bytes  # tokenizer.json
    settings: dict[str, Any]  # tokenizer_config.json
    names: dict[str, str]  # special_tokens_map.json
    bos: int
    eos: int
    pad: int

    def with_pad(self, index: int) -> "Spelling":
        """Return the same with a padding token of its own, which must get this id."""
        library = tokenizers.Tokenizer.from_buffer(self.content)
        filler = [f"<unused{i}>" for i in range(library.get_vocab_size(), index)]
        library.add_special_tokens([*filler, PAD])
        if library.token_to_id(PAD) != index:
            raise WarmstartError(f"its vocabulary leaves no room for a padding token at {index}")
        names = {**self.names, "pad_token": PAD}
        content = str(library.to_str()).encode()
        settings = {**self.settings, **names}
        return replace(self, content=content, settings=settings, names=names, pad=index)


def spell(source: Source, has_segments: bool) -> Spelling:
    """Return a run's tokenizer in the files that transformers reads."""
    tokenizer = source.tokenizer
    library = tokenizers.Tokenizer.from_buffer(_converted(tokenizer))
    library.no_truncation()
    library.no_padding()
    bos, eos = _token(library, tokenizer.bos), _token(library, tokenizer.eos)
    second = 1 if has_segments and source.model.segments > 1 else 0
    # A language model goes on after a prompt, so that nothing ends it.
    single = f"{bos} $A" if source.kind == "causal" else f"{bos} $A {eos}"
    library.post_processor = processors.TemplateProcessing(
        single=single,
        pair=f"{bos} $A {eos} $B:{second} {eos}:{second}",
        special_tokens=[(bos, tokenizer.bos), (eos, tokenizer.eos)],
    )
    names = _names(tokenizer, library, has_segments)
    inputs = ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "model_max_length": source.model.max_length,
        "model_input_names": inputs,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
    }
    content = str(library.to_str()).encode()
    return Spelling(content, settings, names, tokenizer.bos, tokenizer.eos, tokenizer.pad)


def _names(
    tokenizer: Tokenizer, library: tokenizers.Tokenizer, has_segments: bool
) -> dict[str, str]:
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    if has_segments:
        ids |= {"cls": tokenizer.bos, "sep": tokenizer.eos}
    if tokenizer.unk is not None:
        ids["unk"] = tokenizer.unk
    if tokenizer.mask is not None:
        ids["mask"] = tokenizer.mask
    return {f"{role}_token": _token(library, index) for role, index in ids.items()}


def _token(library: tokenizers.Tokenizer, index: int) -> str:
    return str(library.id_to_token(index))


def _converted(tokenizer: Tokenizer) -> bytes:
    """Return a tokenizer.json; a SentencePiece model must split every probe the same in it."""
    name, content = tokenizer.definition
    if name == "tokenizer.json":
        return content
    own = tokenizer.own_size
    made = to_json(content, tokenizer.pieces(range(own, tokenizer.vocab_size)))
    converted = Tokenizer(LibraryBackend(made, _told(tokenizer)))
    if converted.vocab_size != tokenizer.vocab_size:
        raise WarmstartError("its SentencePiece model does not convert to a tokenizer.json exactly")
    for probe, ours, theirs in zip(
        PROBES, tokenizer.encode(PROBES), converted.encode(PROBES), strict=True
    ):
        if ours != theirs:
            raise WarmstartError(
                "its SentencePiece model does not convert to a tokenizer.json exactly: it would "
                f"split {json.dumps(probe[:40], ensure_ascii=False)} otherwise"
            )
    return made


def _told(tokenizer: Tokenizer) -> dict[str, str]:
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    return {role: tokenizer.pieces([index])[0] for role, index in ids.items()}
