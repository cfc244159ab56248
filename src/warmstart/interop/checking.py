"""Load an exported folder with transformers, where it is installed, and compare outputs with ours.

Knows nothing about how the folder was written.
"""

import importlib.util
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.interop.spelling import PROBES
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel
from warmstart.runs.saved import Source

LARGEST_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Check:
    """How a folder's outputs compare with ours."""

    version: str  # of transformers
    num_texts: int
    difference: float  # largest, of any output


def check_folder(source: Source, model: nn.Module, folder: Path) -> Check | None:
    """Compare tokens and outputs on a padded batch; None where transformers is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    config = json.loads((folder / "config.json").read_text())
    with _quiet(transformers):
        theirs: Any = getattr(transformers, config["architectures"][0]).from_pretrained(folder)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    rows = _rows(source)
    _compare_tokens(source, rows, tokenizer)
    ids, is_token = _padded(rows, config["pad_token_id"])
    given = {"input_ids": ids, "attention_mask": is_token.long()}
    segments = None
    if source.model.segments > 1:
        segments = given["token_type_ids"] = (
            (torch.arange(ids.shape[1]) % 4 > 1).long().expand_as(ids)
        )
    with torch.inference_mode():
        found = theirs.eval().float()(**given)
        wanted = _outputs(model, ids, Layout(is_token=is_token, segments=segments))
    difference = max(_difference(found[name], ours, is_token) for name, ours in wanted.items())
    return Check(transformers.__version__, len(rows), difference)


def _rows(source: Source) -> list[list[int]]:
    """Return the probes as the exported tokenizer should read them."""
    tokenizer, longest = source.tokenizer, source.model.max_length
    end = [] if source.kind == "causal" else [tokenizer.eos]
    room = longest - 1 - len(end)
    return [[tokenizer.bos, *ids[:room], *end] for ids in tokenizer.encode(PROBES)]


def _compare_tokens(source: Source, rows: list[list[int]], tokenizer: Any) -> None:
    longest = source.model.max_length
    for probe, ours in zip(PROBES, rows, strict=True):
        found = tokenizer(probe, truncation=True, max_length=longest)["input_ids"]
        if found != ours:
            raise WarmstartError(
                f"the exported tokenizer reads {probe[:40]!r} as {found[:8]}…, ours as {ours[:8]}…"
            )


def _padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(longest)[None] < lengths[:, None]


def _outputs(model: nn.Module, ids: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return our outputs under the names that transformers gives them."""
    assert isinstance(model, BackboneOnly | Classifier | LanguageModel)
    ids = ids.clamp(max=model.config.vocab_size - 1)  # padding may have an id of its own
    hidden = model.backbone(ids, layout)
    if isinstance(model, Classifier):
        return {"logits": model.head(model.backbone, hidden, layout)}
    if isinstance(model, BackboneOnly):
        return {"last_hidden_state": hidden}
    logits = model.head(hidden, model.backbone.embed.weight)
    if hasattr(model, "next_sentence"):
        pair = model.next_sentence(model.backbone.pool_first(hidden))
        return {"prediction_logits": logits, "seq_relationship_logits": pair}
    return {"logits": logits}


def _difference(found: Tensor, ours: Tensor, is_token: Tensor) -> float:
    """Return the largest difference where there are tokens."""
    if ours.dim() == 3:
        found, ours = found[is_token], ours[is_token]
    return float((found - ours).abs().max())


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep a library's bars and notes off the terminal."""
    logging = transformers.utils.logging
    level, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bar:
            logging.enable_progress_bar()
