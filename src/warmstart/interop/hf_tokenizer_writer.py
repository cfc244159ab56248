"""Write a run's tokenizer as the files of a Hugging Face folder.

The post-processor adds the special tokens that our models expect around a text.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.export_format import PROBES
from warmstart.interop.sentencepiece_json import to_json
from warmstart.runs.saved import SavedRun
from warmstart.tasks.registry import task_of
from warmstart.tokenization.backends import JsonTokenizer
from warmstart.tokenization.specials import FILE_NAME
from warmstart.tokenization.tokenizer import Tokenizer

PAD = "<pad>"


@dataclass(frozen=True)
class HfTokenizer:
    """The files of a tokenizer, and the ids that config.json repeats."""

    content: bytes  # tokenizer.json
    settings: dict[str, Any]  # tokenizer_config.json
    names: dict[str, str]  # special_tokens_map.json
    bos: int
    eos: int
    pad: int

    def write(self, folder: Path) -> None:
        """Write the files."""
        write_whole(folder / "tokenizer.json", self.content)
        write_json(folder / "tokenizer_config.json", self.settings)
        write_json(folder / FILE_NAME, self.names)

    def with_pad(self, index: int) -> "HfTokenizer":
        """Return the same with a separate padding token, which must get this id."""
        library = tokenizers.Tokenizer.from_buffer(self.content)
        unused = [f"<unused{i}>" for i in range(library.get_vocab_size(), index)]
        library.add_special_tokens([*unused, PAD])
        if library.token_to_id(PAD) != index:
            raise WarmstartError(f"its vocabulary leaves no room for a padding token at {index}")
        names = {**self.names, "pad_token": PAD}
        content = str(library.to_str()).encode()
        settings = {**self.settings, **names}
        return replace(self, content=content, settings=settings, names=names, pad=index)


def convert_tokenizer(
    source: SavedRun, has_segments: bool, tokenizer: Tokenizer | None = None
) -> HfTokenizer:
    """Return a run's tokenizer, that of its input by default, as the files of transformers."""
    tokenizer = tokenizer or source.tokenizer
    library = tokenizers.Tokenizer.from_buffer(_to_json(tokenizer))
    library.no_truncation()
    library.no_padding()
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    if has_segments:
        ids |= {"cls": tokenizer.bos, "sep": tokenizer.eos}
    for role, index in (("unk", tokenizer.unk), ("mask", tokenizer.mask)):
        if index is not None:
            ids[role] = index
    names = {f"{role}_token": str(library.id_to_token(index)) for role, index in ids.items()}
    bos, eos = names["bos_token"], names["eos_token"]
    second = 1 if has_segments and source.model.segments > 1 else 0
    # A causal model continues a prompt, so no end token follows the prompt.
    single = "$A" if not tokenizer.has_start else f"{bos} $A"
    if task_of(source).ends_texts:
        single = f"{single} {eos}"
    library.post_processor = processors.TemplateProcessing(
        single=single,
        pair=f"{bos} $A {eos} $B:{second} {eos}:{second}",
        special_tokens=[(bos, tokenizer.bos), (eos, tokenizer.eos)],
    )
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
    return HfTokenizer(content, settings, names, tokenizer.bos, tokenizer.eos, tokenizer.pad)


def _to_json(tokenizer: Tokenizer) -> bytes:
    """Return a tokenizer.json; a SentencePiece model must split every probe in the same way."""
    if tokenizer.file_name == "tokenizer.json":
        return tokenizer.content
    added = tokenizer.pieces(range(tokenizer.own_size, tokenizer.vocab_size))
    converted_content = to_json(tokenizer.content, added)
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    names = {role: tokenizer.pieces([index])[0] for role, index in ids.items()}
    converted = JsonTokenizer(converted_content, names)
    if converted.vocab_size != tokenizer.vocab_size:
        raise WarmstartError("its SentencePiece model does not convert to a tokenizer.json exactly")
    encodings = zip(PROBES, tokenizer.encode(PROBES), converted.encode(PROBES), strict=True)
    for probe, ours, theirs in encodings:
        if ours != theirs:
            raise WarmstartError(
                "its SentencePiece model does not convert to a tokenizer.json exactly: it would "
                f"split {json.dumps(probe[:40], ensure_ascii=False)} differently"
            )
    return converted_content
