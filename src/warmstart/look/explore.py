"""A page that computes small models in the browser: type a text, switch parts off."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.formats import quantity
from warmstart.look.commands import LookExploreConfig
from warmstart.model.models import Classifier
from warmstart.report.html import Shown, render
from warmstart.runs.saved import SavedRun, read_run
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.mask_filler import mask_spellings
from warmstart.tasks.registry import as_transformer, task_of
from warmstart.tasks.task import PageOutput
from warmstart.tasks.text_model import TransformerModel
from warmstart.tokenization.backends import JsonTokenizer, parse_json
from warmstart.tokenization.tokenizer import Tokenizer

MAX_PAGE = 24_000_000  # bytes; a browser computes larger models too slowly to play with
BYTES_PER_WEIGHT = 4  # 24 bits in base64
SCRIPTS = ("transformer.js", "tokenizer.js", "explore.js")
SPECIAL_ROOM = 2  # of the longest text: its first and last special token
LARGEST = 2**23 - 1  # of 24-bit integers; 16 bits would change probabilities by up to 0.001
# Choices of a backbone that transformer.js has.
KNOWN = {
    "positions": ("sinusoidal", "learned", "rope"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "relu2", "swiglu", "geglu"),
}
NORMALIZERS = ("Prepend", "BertNormalizer")
# Kinds of tokenizer model that tokenizer.js has: what splits words before it, and its settings.
PIECE_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "BPE": (
        "ByteLevel",
        {
            "dropout": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "byte_fallback": False,
            "ignore_merges": False,
        },
    ),
    "Unigram": ("ByteLevel", {"byte_fallback": False}),
    "WordPiece": ("BertPreTokenizer", {}),
}


@dataclass(frozen=True)
class ExplorePage(Shown):
    """The page, and the models inside it."""

    out: Path
    descriptions: tuple[str, ...]
    num_bytes: int

    @property
    def sentence(self) -> str:
        """Say what the page holds, without a full stop."""
        models = ", ".join(self.descriptions)
        return f"{models}, {self.num_bytes / 1e6:.1f} MB with weights and tokenizer"

    def pieces(self) -> list[str]:
        page = self.out.read_text(encoding="utf-8")
        return [render("frame.html", {"page": page, "name": self.out.name}, "warmstart.look")]


def look_explore(config: LookExploreConfig) -> ExplorePage:
    """Write a page that computes small models in the browser, with parts to switch off."""
    models = [model_data(read_run(run)) for run in config.runs]
    page = explore_html(models, config.text).encode()
    if len(page) > MAX_PAGE:
        raise WarmstartError(
            f"the page would have {len(page) / 1e6:.0f} MB and may have {MAX_PAGE / 1e6:.0f}: "
            "name fewer runs"
        )
    out = write_whole(Path(config.out), page)
    return ExplorePage(out, tuple(model["description"] for model in models), len(page))


def explore_html(models: list[dict[str, Any]], text: str) -> str:
    """Return the whole page; its policy allows this script and nothing from elsewhere."""
    folder = files("warmstart.look") / "templates"
    script = "\n" + "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    names = ", ".join(model["name"] for model in models)
    values = {
        "title": f"Explore {names}",
        "data": {"text": text, "models": models},
        "script": Markup(script),
        "digest": digest,
    }
    return render("explore.html", values, "warmstart.look")


def model_data(run: SavedRun) -> dict[str, Any]:
    """Return everything that the script needs to compute a model; refuse what it cannot."""
    task, path = task_of(run), str(run.path)
    if task.page_output is None:
        raise WarmstartError(
            f"{path} is {task.description}; look explore shows classifiers and language models"
        )
    model = as_transformer(task.open(run, Runtime(torch.device("cpu"))))
    if model.reads_pairs:
        raise WarmstartError(f"{path} reads pairs of texts; look explore shows models of one text")
    weights = _weights(model)
    return {
        "name": path,
        "description": model.description,
        "output": task.page_output,
        **architecture(model.config),
        **_reading_data(model, task.page_output),
        **_labels(model),
        "facts": _facts(model.config, weights),
        "tensors": {name: pack(tensor) for name, tensor in weights.items()},
    }


def _weights(model: TransformerModel) -> dict[str, Tensor]:
    """Return the weights of backbone and head; refuse too many, and those that are no numbers."""
    named = model.model.state_dict().items()
    weights = {name: tensor for name, tensor in named if name.startswith(("backbone.", "head."))}
    num = sum(tensor.numel() for tensor in weights.values())
    if num * BYTES_PER_WEIGHT > MAX_PAGE:
        raise WarmstartError(
            f"{model.name} has {num:,} parameters, which take {num * BYTES_PER_WEIGHT / 1e6:.0f} "
            f"MB of a page, and a page may have {MAX_PAGE / 1e6:.0f}: train a small model with "
            "--preset tiny"
        )
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise WarmstartError(f"{model.name}: some of its weights are NaN or infinite")
    return weights


def architecture(config: ModelConfig) -> dict[str, Any]:
    """Return the choices of a backbone as transformer.js names them; refuse one it lacks."""
    for name, known in KNOWN.items():
        if getattr(config, name) not in known:
            raise WarmstartError(
                f"model.{name}={getattr(config, name)} is not known to look explore, which has "
                f"{', '.join(known)}"
            )
    return {
        "vocabSize": config.vocab_size,
        "depth": config.depth,
        "heads": config.heads,
        "maxLength": config.max_length,
        "isCausal": config.is_causal,
        "isScaled": config.ablated != "scale",
        "positions": config.position_encoding,
        "ropeBase": config.rope_base,
        "localRopeBase": config.local_rope_base,
        "localWindow": config.local_window,
        "globalEvery": config.global_every,
        "norm": config.norm_kind,
        "normPosition": config.norm_position,
        "normEps": config.norm_eps,
        "activation": config.activation,
        "hasResidual": config.ablated != "residual",
        "scaleEmbedding": config.scale_embedding,
        "embeddingNorm": config.embedding_norm,
        "hasPooler": config.pooler,
        "hasTransform": config.transform,
    }


def _reading_data(model: TransformerModel, output: PageOutput) -> dict[str, Any]:
    """Return how a text becomes ids, and which ids are never shown as words."""
    tokenizer = model.tokenizer
    is_filler, is_generator = output == "masked word", output == "next word"
    suppressed = tokenizer.suppressed_ids(model.config.vocab_size)
    return {
        "tokenizer": _tokenizer_data(tokenizer, model.name),
        "pieces": [
            label.replace("▁", " ") for label in tokenizer.labels(range(model.config.vocab_size))
        ],
        "masks": list(mask_spellings(tokenizer)) if is_filler else [],
        "mask": tokenizer.mask,
        "begin": [tokenizer.bos] if is_filler or is_generator else tokenizer.start,
        "end": [] if is_generator else [tokenizer.eos],
        "room": SPECIAL_ROOM,
        "truncate": model.truncate,
        "suppressed": [*suppressed, tokenizer.eos] if is_filler else suppressed,
    }


def _labels(model: TransformerModel) -> dict[str, Any]:
    """Return the labels of a classifier, and how it pools; nothing for a language model."""
    if not isinstance(model.model, Classifier):
        return {"classes": [], "pooling": None}
    return {"classes": list(model.classes), "pooling": model.model.head.pooling}


def _facts(config: ModelConfig, weights: Mapping[str, Tensor]) -> list[str]:
    positions = {None: "no positions", "rope": "rotary positions"}
    num = sum(tensor.numel() for tensor in weights.values())
    return [
        f"{quantity(config.depth, 'block')} of {quantity(config.heads, 'head')}",
        f"width {config.width}",
        "causal" if config.is_causal else "bidirectional",
        positions.get(config.position_encoding, f"{config.position_encoding} positions"),
        f"{num:,} parameters",
    ]


def pack(tensor: Tensor) -> dict[str, Any]:
    """Return a matrix as 24-bit integers with a scale for each row: as exact as float32."""
    rows = tensor.double().reshape(-1, tensor.shape[-1]).numpy()  # a vector is one row
    scales = (np.abs(rows).max(1) / LARGEST).astype("<f4")
    steps = np.where(scales > 0, scales, 1).astype(np.float64)[:, None]
    integers = np.rint(rows / steps).clip(-LARGEST, LARGEST).astype("<i4")
    low_bytes = integers.reshape(-1, 1).view(np.uint8)[:, :3]
    return {
        "columns": rows.shape[1],
        "integers": base64.b64encode(low_bytes.tobytes()).decode(),
        "scales": base64.b64encode(scales.tobytes()).decode(),
    }


def _tokenizer_data(tokenizer: Tokenizer, name: str) -> dict[str, Any]:
    """Return what tokenizer.js needs; refuse a tokenizer that it does not have."""
    if not isinstance(tokenizer, JsonTokenizer):
        raise _unknown_tokenizer(name, f"a {tokenizer.kind} tokenizer")
    spec = json.loads(parse_json(tokenizer.content).to_str())
    if part := next(_foreign_parts(spec), None):
        raise _unknown_tokenizer(name, part)
    specials = {tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.mask}
    return {
        "spec": {key: spec[key] for key in ("normalizer", "pre_tokenizer", "model")},
        "specials": sorted(index for index in specials if index is not None),
        "unk": tokenizer.unk,
    }


def _foreign_parts(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a tokenizer.json that tokenizer.js does not have."""
    normalizer, splitter, model = spec["normalizer"], spec["pre_tokenizer"], spec["model"]
    if normalizer and normalizer["type"] not in NORMALIZERS:
        yield f"the normalizer {normalizer['type']}"
    if model["type"] not in PIECE_MODELS:
        yield f"the model {model['type']}"
        return
    needed, settings = PIECE_MODELS[model["type"]]
    if not splitter or splitter["type"] != needed or not splitter.get("use_regex", True):
        yield f"the pre-tokenizer {splitter['type'] if splitter else 'nothing'}"
    for key, value in settings.items():
        if (model.get(key) or None) != (value or None):
            yield f"{key}={model[key]}"
    for token in spec["added_tokens"]:
        if not token["special"]:
            yield f"the added token {token['content']!r}"
    pieces = (
        model["vocab"] if model["type"] != "Unigram" else [piece for piece, _ in model["vocab"]]
    )
    if needed == "ByteLevel" and not set(ByteLevel.alphabet()).issubset(pieces):
        yield "a vocabulary that lacks bytes"


def _unknown_tokenizer(name: str, part: str) -> WarmstartError:
    return WarmstartError(
        f"{name}: its tokenizer has {part}, which look explore cannot compute in a browser; it "
        "knows those that `warmstart tokenizer` makes (bpe, unigram) and BERT's WordPiece"
    )
