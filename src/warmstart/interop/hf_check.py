"""Load an exported folder with transformers, if installed, and compare its outputs with ours."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.interop.export_format import (
    PROBES,
    ExportRequest,
    OutputCheck,
    compare_outputs,
    probe_rows,
    require_same_tokens,
)
from warmstart.jsonfiles import read_object
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.runs.saved import SavedRun
from warmstart.tokenization.backends import library_errors


def check_folder(request: ExportRequest) -> OutputCheck | None:
    """Compare tokens and outputs on a padded batch; None if transformers is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    source, model, folder = request.source, request.model, request.folder
    config = read_object(folder / "config.json")
    with _quiet(transformers):
        theirs: Any = getattr(transformers, config["architectures"][0]).from_pretrained(folder)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    ids, is_token = _encode_probes(source, tokenizer)
    inputs = {"input_ids": ids, "attention_mask": is_token.long()}
    segments = None
    if source.model.segments > 1:  # any segments will do, if they differ
        segments = (torch.arange(ids.shape[1]) % 4 > 1).long().expand_as(ids)
        inputs["token_type_ids"] = segments
    if isinstance(model, Translator):
        inputs["decoder_input_ids"] = ids  # any target will do
    with torch.inference_mode():
        their_outputs = theirs.eval().float()(**inputs)
        our_outputs = _outputs(model, ids, Layout(is_token=is_token, segments=segments))
    pairs = [(their_outputs[name], output) for name, output in our_outputs.items()]
    return compare_outputs(
        request,
        transformers,
        [(a[is_token], b[is_token]) if b.dim() == 3 else (a, b) for a, b in pairs],
    )


def _encode_probes(source: SavedRun, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Encode the probes with the exported tokenizer, which must agree with ours."""
    longest = source.model.max_length
    with library_errors("the exported tokenizer cannot read a text"):
        batch = tokenizer(
            list(PROBES), truncation=True, max_length=longest, padding=True, return_tensors="pt"
        )
    ids, is_token = batch["input_ids"], batch["attention_mask"].bool()
    theirs = [row[mask].tolist() for row, mask in zip(ids, is_token, strict=True)]
    require_same_tokens(theirs, probe_rows(source))
    return ids, is_token


def _outputs(model: nn.Module, ids: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return our outputs under the names that transformers gives them."""
    if isinstance(model, Translator):
        return {"logits": model(ids, layout.is_token, ids)}
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


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's progress bars and notes off the terminal."""
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
