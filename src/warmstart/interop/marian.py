"""Marian and Pegasus: encoder-decoders with sinusoidal positions, post-norm and pre-norm.

Both put the sines of a position before its cosines, where the 2017 paper and our models interleave
them. The order of the columns of a hidden vector means nothing else, so all are reordered together.
"""

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.family import Family, HfConfig, HfFolder, HfHead, HfTensors, from_hub
from warmstart.interop.tokenizers import CONTROL, NORMAL, UNKNOWN, UNUSED, errors_name, parse_model
from warmstart.jsonfiles import from_json
from warmstart.model.attention import sinusoids
from warmstart.settings.model import ModelConfig
from warmstart.tasks import hub
from warmstart.tokenization.backends import (
    SentencePieceTokenizer,
    TokenizerPair,
)
from warmstart.tokenization.tokenizer import Tokenizer

STACKS = ("encoder", "decoder")
_CROSS = "model.decoder.layers.#.encoder_attn"
OUR_BIAS, BIAS = "head.output.bias", "final_logits_bias"
SOURCE, TARGET, VOCAB = "source.spm", "target.spm", "vocab.json"
# The padding token begins the target, and nothing begins the source.
NAMES = {"bos": "<pad>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>"}


def _attention(ours: str, theirs: str) -> dict[str, str]:
    attention = f"{theirs}.self_attn"
    return {
        f"{ours}.attend.project": f"{attention}.q_proj {attention}.k_proj {attention}.v_proj",
        f"{ours}.attend.output": f"{attention}.out_proj",
        f"{ours}.norm_attend": f"{theirs}.self_attn_layer_norm",
        f"{ours}.ffn.inner": f"{theirs}.fc1",
        f"{ours}.ffn.outer": f"{theirs}.fc2",
        f"{ours}.norm_ffn": f"{theirs}.final_layer_norm",
    }


LAYERS = {
    "encoder.embed": "model.shared",
    OUR_BIAS: BIAS,
    **_attention("encoder.blocks.#", "model.encoder.layers.#"),
    **_attention("decoder.blocks.#", "model.decoder.layers.#"),
    "decoder.blocks.#.cross.query": f"{_CROSS}.q_proj",
    "decoder.blocks.#.cross.project": f"{_CROSS}.k_proj {_CROSS}.v_proj",
    "decoder.blocks.#.cross.output": f"{_CROSS}.out_proj",
    "decoder.blocks.#.norm_cross": "model.decoder.layers.#.encoder_attn_layer_norm",
    "encoder.norm_final": "model.encoder.layer_norm",
    "decoder.norm_final": "model.decoder.layer_norm",
}


def _read_settings(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    for name in ("ffn_dim", "attention_heads"):
        size = config.size(f"encoder_{name}")
        config.require(f"decoder_{name}", [size], f"is not the encoder's; {size} is supported")
    if not config.flag("scale_embedding", False):
        config.refuse("scale_embedding", "is not supported; scaled embeddings are")
    shared = "is not supported; one embedding for source, target and output is"
    config.require("tie_word_embeddings", [True], shared)
    config.require("share_encoder_decoder_embeddings", [True], shared)
    config.require("decoder_vocab_size", [config.size("vocab_size")], shared)
    if BIAS in tensors:
        tensors[BIAS] = tensors[BIAS].flatten()  # in the file (1, V)
    return {"output_bias": BIAS in tensors}


def _more_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "decoder_attention_heads": model.heads,
        "decoder_ffn_dim": model.ffn_width,
        "activation_dropout": model.dropout if model.inner_dropout else 0.0,
        "scale_embedding": True,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
    }


def _sines_first(weights: dict[str, Tensor], head: HfHead) -> None:
    """Put the even columns of hidden vectors, the sines of positions, before the odd ones."""
    _reorder(weights, _order(weights))
    if OUR_BIAS in weights:
        weights[OUR_BIAS] = weights[OUR_BIAS][None]


def _position_tables(model: ModelConfig) -> dict[str, Tensor]:
    """Return the sinusoids, without which transformers reports missing weights."""
    table = sinusoids(model.max_length, model.width, torch.device("cpu")).float()
    return {
        f"model.{stack}.embed_positions.weight": torch.cat([table[:, 0::2], table[:, 1::2]], 1)
        for stack in STACKS
    }


def _interleave(weights: dict[str, Tensor]) -> None:
    """Put the columns of hidden vectors back where our models have them."""
    _reorder(weights, _order(weights).argsort())


def _order(weights: dict[str, Tensor]) -> Tensor:
    width = weights["encoder.embed.weight"].shape[1]
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def _reorder(weights: dict[str, Tensor], order: Tensor) -> None:
    for name, tensor in weights.items():
        if name == OUR_BIAS:
            continue  # a value for each token, not for each column
        layer = name.split(".")[-2]
        if layer in ("output", "outer") or layer.startswith("norm_"):
            weights[name] = tensor[order]  # writes hidden vectors
        elif tensor.dim() == 2:
            weights[name] = tensor[:, order]  # reads hidden vectors


MARIAN = Family(
    **from_hub(hub.MARIAN),
    model_types=("marian",),
    prefix="",
    layers=LAYERS,
    head_layers={},
    buffers=r"model\.(en|de)coder\.embed_positions\.weight",
    copies=("lm_head.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS)),
    sizes={
        "vocab_size": "vocab_size",
        "width": "d_model",
        "depth": "encoder_layers",
        "decoder_depth": "decoder_layers",
        "heads": "encoder_attention_heads",
        "ffn_width": "encoder_ffn_dim",
        "max_length": "max_position_embeddings",
    },
    activation=("activation_function", "gelu"),
    dropout=("dropout", "attention_dropout", 0.1),
    read_settings=_read_settings,
    restore=_interleave,
    more_config=_more_config,
    widen=lambda model, head: replace(
        model, biases=True, output_bias=model.biases and model.output_bias
    ),
    adapt=_sines_first,
    constants=_position_tables,
)
PEGASUS = replace(
    MARIAN,
    **from_hub(hub.PEGASUS),
    model_types=("pegasus",),
)


def read_marian_tokenizers(folder: HfFolder) -> TokenizerPair:
    """Return both tokenizers, with the ids of vocab.json."""
    vocab = from_json(dict[str, int], folder.read_json(VOCAB), folder.path / VOCAB)
    _check_vocab(vocab, folder)
    return TokenizerPair(*(_read_model(folder, name, vocab) for name in (SOURCE, TARGET)))


def _check_vocab(vocab: dict[str, int], folder: HfFolder) -> None:
    file = folder.path / VOCAB
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise WarmstartError(f"{file}: the ids must be 0 to {len(vocab) - 1}, each once")
    missing = next((name for name in NAMES.values() if name not in vocab), None)
    if missing:
        raise WarmstartError(f"{file}: no {missing}, which every Marian vocabulary has")
    code = next((name for name in vocab if re.fullmatch(">>.*<<", name)), None)
    if code:
        raise WarmstartError(
            f"{file}: {code} chooses one of several target languages; one language is supported"
        )


def _read_model(folder: HfFolder, name: str, vocab: dict[str, int]) -> Tokenizer:
    content = folder.read_bytes(name)
    if content is None:
        raise WarmstartError(f"{folder.path}: no {name} beside {VOCAB}")
    with errors_name(folder.path / name):
        return SentencePieceTokenizer(renumber(content, vocab), NAMES, has_start=False)


def renumber(content: bytes, vocab: dict[str, int]) -> bytes:
    """Return a SentencePiece model that splits text as before, and whose ids are the vocabulary's.

    Entries of the vocabulary that the model lacks belong to the other language: no text gives them.
    """
    model = parse_model(content)
    pieces: dict[str, Any] = {piece.piece: piece for piece in model.pieces}
    lost = next((p for p in pieces if pieces[p].type == NORMAL and p not in vocab), None)
    if lost is not None:
        raise WarmstartError(f"its piece {lost!r} has no id in {VOCAB}")
    renumbered = type(model)()
    renumbered.CopyFrom(model)
    del renumbered.pieces[:]
    kinds = {NAMES["eos"]: CONTROL, NAMES["pad"]: CONTROL, NAMES["unk"]: UNKNOWN}
    for name in sorted(vocab, key=vocab.__getitem__):
        known = pieces.get(name)
        score = 0.0 if known is None else known.score
        kind = kinds.get(name, UNUSED if known is None else known.type)
        renumbered.pieces.add(piece=name, score=score, type=kind)
    serialized: bytes = renumbered.SerializeToString()
    return serialized
