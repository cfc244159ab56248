"""Run exported ONNX files with onnxruntime and compare their outputs with ours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.padding import padded
from warmstart.interop.export_format import (
    PROBES,
    ExportRequest,
    OutputCheck,
    compare_outputs,
    import_library,
    probe_rows,
    require_same_tokens,
)
from warmstart.interop.onnx_graphs import Graph
from warmstart.model.backbone import Layout
from warmstart.model.heads import pool
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator

Arrays = dict[str, NDArray[Any]]


class OnnxSession:
    """One ONNX file in onnxruntime."""

    def __init__(self, file: Path) -> None:
        runtime: Any = import_library("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = runtime.InferenceSession(file, options, ["CPUExecutionProvider"])
        self.inputs = {given.name: given.shape for given in self._session.get_inputs()}
        self.outputs = [output.name for output in self._session.get_outputs()]

    def __call__(self, inputs: Mapping[str, Any]) -> Arrays:
        """Return the outputs by name."""
        return dict(zip(self.outputs, self._session.run(None, dict(inputs)), strict=True))

    def empty_cache(self, num_rows: int) -> Arrays:
        """Return keys and values (B, H, 0, K) before the first position."""
        caches = {name: shape for name, shape in self.inputs.items() if "past_key_values" in name}
        return {n: np.zeros((num_rows, s[1], 0, s[3]), np.float32) for n, s in caches.items()}


def check_graphs(request: ExportRequest, graphs: Sequence[Graph]) -> OutputCheck:
    """Compare tokens and outputs on padded texts, with caches one token at a time."""
    runtime: Any = import_library("onnxruntime", "onnx")
    source, folder = request.source, request.folder
    rows = probe_rows(source)
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.enable_truncation(source.model.max_length)
    require_same_tokens([found.ids for found in library.encode_batch(list(PROBES))], rows)
    sessions = [OnnxSession(folder / graph.file) for graph in graphs]
    with torch.inference_mode():
        return compare_outputs(request, runtime, _outputs(request, sessions, rows))


def _outputs(
    request: ExportRequest, sessions: Sequence[OnnxSession], rows: list[list[int]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield their outputs and ours of every kind, padding left out."""
    model, pad = request.model, request.source.tokenizer.pad
    if isinstance(model, Translator):
        target = request.source.tokenizers.target
        room = request.source.model.max_length - 1
        targets = [[target.bos, *ids[:room]] for ids in target.encode(PROBES)]
        yield _translator_outputs(model, sessions, padded(rows, pad), padded(targets, target.pad))
    elif isinstance(model, LanguageModel) and model.config.is_causal:
        yield _causal_outputs(model, sessions[0], rows, pad)
    else:
        assert isinstance(model, BackboneOnly | Classifier | LanguageModel)
        for some in (rows, rows[:1]):  # a graph may have kept the size of its example
            yield from _text_outputs(model, sessions[0], *padded(some, pad))


def _text_outputs(
    model: BackboneOnly | Classifier | LanguageModel,
    session: OnnxSession,
    ids: Tensor,
    is_token: Tensor,
) -> Iterator[tuple[Tensor, Tensor]]:
    inputs = {"input_ids": ids.numpy(), "attention_mask": is_token.long().numpy()}
    segments = None
    if "token_type_ids" in session.inputs:  # any segments will do, if they differ
        segments = (torch.arange(ids.shape[1]) % 4 > 1).long().expand_as(ids)
        inputs["token_type_ids"] = segments.numpy()
    layout = Layout(is_token=is_token, segments=segments)
    hidden = model.backbone(ids, layout)
    vector = pool(model.backbone, hidden, is_token, "mean")
    ours = {"last_hidden_state": hidden, "sentence_embedding": vector}
    if isinstance(model, Classifier):
        ours["logits"] = model.head(model.backbone, hidden, layout)
    elif isinstance(model, LanguageModel):
        ours["logits"] = model.head(hidden, model.backbone.embed.weight)
    for name, array in session(inputs).items():
        theirs, wanted = torch.from_numpy(array), ours[name]
        yield (theirs[is_token], wanted[is_token]) if theirs.dim() == 3 else (theirs, wanted)


def _causal_outputs(
    model: LanguageModel, session: OnnxSession, rows: list[list[int]], pad: int
) -> tuple[Tensor, Tensor]:
    """Compare logits of texts padded at the left, as prompts of several lengths are."""
    reversed_ids, reversed_is_token = padded([row[::-1] for row in rows], pad)
    ids, is_token = reversed_ids.flip(1), reversed_is_token.flip(1)
    mask = is_token.long().numpy()
    theirs = stepwise(session, ids.numpy(), lambda stop: {"attention_mask": mask[:, :stop]})
    ours = [model(torch.tensor([row]))[0] for row in rows]
    return theirs[is_token], torch.cat(ours)


def _translator_outputs(
    model: Translator,
    sessions: Sequence[OnnxSession],
    source: tuple[Tensor, Tensor],
    target: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    encoder, decoder = sessions
    (ids, is_token), (target_ids, is_target) = source, target
    mask = is_token.long().numpy()
    encoded = encoder({"input_ids": ids.numpy(), "attention_mask": mask})
    given = {"encoder_attention_mask": mask, **as_past(encoded)}
    theirs = stepwise(decoder, target_ids.numpy(), lambda stop: given)
    return theirs[is_target], model(ids, is_token, target_ids)[is_target]


def stepwise(
    session: OnnxSession, ids: NDArray[np.int64], given: Callable[[int], Mapping[str, Any]]
) -> Tensor:
    """Return logits (B, T, V): of the first half of the ids at once, then token by token."""
    B, T = ids.shape
    logits, cache = list[NDArray[Any]](), session.empty_cache(B)
    for start, stop in pairwise([0, *range(max(1, T // 2), T + 1)]):
        outputs = session({"input_ids": ids[:, start:stop], **cache, **given(stop)})
        logits.append(outputs["logits"])
        cache = as_past(outputs)
    return torch.from_numpy(np.concatenate(logits, 1))


def as_past(outputs: Arrays) -> Arrays:
    """Return the keys and values among outputs, under the names of the next step's inputs."""
    name = "present."
    return {n.replace(name, "past_key_values."): a for n, a in outputs.items() if name in n}
