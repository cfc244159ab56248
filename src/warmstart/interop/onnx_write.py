"""Write a run as ONNX files with its tokenizer, and check them with onnxruntime."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import pad_ids
from warmstart.files import write_json, write_whole
from warmstart.interop.family import LONGEST, MARGIN, THRESHOLD
from warmstart.interop.formats import (
    PROBES,
    ExportRequest,
    ExportResult,
    OutputCheck,
    compare_outputs,
    import_library,
    own_outputs,
    pair_outputs,
    probe_layout,
    probe_rows,
    quiet,
    require_same_tokens,
)
from warmstart.interop.onnx_graphs import CACHE_AXES, SIZES, Graph, graphs_of
from warmstart.interop.tokenizers import write_tokenizers
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel, Translator
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.tasks.task import num_parameters

OPSET = 18  # of ONNX; runtimes from 2023 on read it
_USE = """
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
session = onnxruntime.InferenceSession("FOLDER/{file}")
text = tokenizer.encode("A text.")
columns = {"input_ids": text.ids, "attention_mask": text.attention_mask}
columns["token_type_ids"] = text.type_ids
inputs = {}
for given in session.get_inputs():
    if given.name in columns:
        inputs[given.name] = np.array([columns[given.name]])
    else:  # a cache, which is empty at the first step
        inputs[given.name] = np.zeros((1, given.shape[1], 0, given.shape[3]), np.float32)
outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
print({name: values.shape for name, values in outputs.items()})
"""
_LABEL = """
import json

config = json.load(open("FOLDER/config.json"))
best = outputs["logits"][0].argmax(-1)  # of the text, or of each of its tokens
print(*(config["id2label"][str(label)] for label in np.atleast_1d(best)))
"""
_NUMBER = """
print(outputs["logits"][0, 0])  # in the unit of the labels
"""
Arrays = dict[str, NDArray[Any]]


def write_onnx(request: ExportRequest) -> ExportResult:
    """Write one file for each graph of a model; int8 quantises the weights of its products."""
    for library in ("onnx", "onnxscript", "onnxruntime"):
        import_library(library, "onnx")
    source, model, folder = request.source, request.model, request.folder
    write_tokenizers(source, source.model.segments > 1, folder)
    graphs = graphs_of(model)
    for graph in graphs:
        _record(graph, folder / graph.file, source.model)
        if request.precision == "int8":
            _quantize(folder / graph.file)
    write_json(folder / "config.json", _config(source))
    check = check_graphs(request, graphs)
    return ExportResult(
        folder=request.out,
        architecture=type(model).__name__,
        num_parameters=num_parameters(model),
        code=_USE.replace("{file}", graphs[0].file) + _use_of_logits(source),
        check=check,
    )


def _use_of_logits(source: SavedRun) -> str:
    """Return what a program makes of the logits of a classifier or a regression model."""
    return _LABEL if source.classes else _NUMBER if "margin" in source.weights else ""


def _record(graph: Graph, file: Path, config: ModelConfig) -> None:
    """Export a graph with its example inputs; the axes that have names stay free."""
    shapes: dict[str, Any] = dict(graph.inputs)
    inputs: dict[str, Any] = {
        name: torch.ones([SIZES[axis] for axis in axes.values()], dtype=torch.long)
        for name, axes in graph.inputs.items()
    }
    names = list(graph.inputs)
    for name, caches in graph.caches.items():
        axes = CACHE_AXES[name]
        B, P = (SIZES[axis] for axis in axes.values())
        example = torch.zeros(B, config.heads, P, config.width // config.heads)
        inputs[name] = [example.clone() for _ in caches]  # one tensor would be one input
        shapes[name] = [axes] * len(caches)
        names += caches
    with quiet():
        program = torch.onnx.export(
            graph.module.eval(),
            kwargs=inputs,
            input_names=names,
            output_names=graph.outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
        )
    assert program is not None
    exported = program.model_proto
    for node in exported.graph.node:  # removes the paths of our source files
        node.ClearField("metadata_props")
    # Transposed weights still have their earlier shapes noted; readers infer shapes themselves.
    exported.graph.ClearField("value_info")
    write_whole(file, exported.SerializeToString())


def _quantize(file: Path) -> None:
    """Replace the weights of matrix products and embeddings by 8-bit integers."""
    quantization = import_library("onnxruntime.quantization", "onnx")
    with quiet():
        # Seven bits of range: eight overflow the products of processors without VNNI.
        quantization.quantize_dynamic(file, file, per_channel=True, reduce_range=True)


def _config(source: SavedRun) -> dict[str, Any]:
    """Return what a program needs besides the graphs, under the names of transformers."""
    target, model = source.tokenizers.target, source.model
    config: dict[str, Any] = {
        "model_type": "warmstart",
        "task": source.task,
        "max_length": model.max_length,
        "pad_token_id": source.tokenizer.pad,
        "bos_token_id": target.bos,
        "eos_token_id": target.eos,
        "num_hidden_layers": model.decoder_depth or model.depth,
        "num_attention_heads": model.heads,
        "hidden_size": model.width,
    }
    if "threshold" in source.weights:
        config |= {THRESHOLD: float(source.weights["threshold"]), LONGEST: source.config["longest"]}
    elif "margin" in source.weights:
        config[MARGIN] = float(source.weights["margin"])
    elif source.classes:
        config["id2label"] = dict(enumerate(source.classes))
    else:
        num_ids = model.target_vocab_size or model.vocab_size
        config["suppress_tokens"] = target.suppressed_ids(num_ids)
    return config


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
    require_same_tokens([encoding.ids for encoding in library.encode_batch(list(PROBES))], rows)
    sessions = [OnnxSession(folder / graph.file) for graph in graphs]
    with torch.inference_mode():
        return compare_outputs(request, runtime, _outputs(request, sessions, rows))


def _outputs(
    request: ExportRequest, sessions: Sequence[OnnxSession], rows: list[list[int]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield every output as a pair, by onnxruntime and by us, without padding."""
    model, pad = request.model, request.source.tokenizer.pad
    if isinstance(model, Translator):
        target = request.source.tokenizers.target
        room = request.source.model.max_length - 1
        targets = [[target.bos, *ids[:room]] for ids in target.encode(PROBES)]
        yield _translator_outputs(model, sessions, pad_ids(rows, pad), pad_ids(targets, target.pad))
    elif isinstance(model, LanguageModel) and model.config.is_causal:
        yield _causal_outputs(model, sessions[0], rows, pad)
    else:
        for batch in (rows, rows[:1]):  # a graph may have kept the size of its example
            ids, is_token = pad_ids(batch, pad)
            layout = probe_layout(request.source.model, is_token)
            yield from _text_outputs(model, sessions[0], ids, layout)


def _text_outputs(
    model: nn.Module, session: OnnxSession, ids: Tensor, layout: Layout
) -> Iterator[tuple[Tensor, Tensor]]:
    assert layout.is_token is not None
    inputs = {"input_ids": ids.numpy(), "attention_mask": layout.is_token.long().numpy()}
    if layout.segments is not None:
        inputs["token_type_ids"] = layout.segments.numpy()
    theirs = {name: torch.from_numpy(array) for name, array in session(inputs).items()}
    return pair_outputs(theirs, own_outputs(model, ids, layout), layout.is_token)


def _causal_outputs(
    model: LanguageModel, session: OnnxSession, rows: list[list[int]], pad: int
) -> tuple[Tensor, Tensor]:
    """Return the logits of texts by onnxruntime, padded at the left as prompts are, and by us."""
    reversed_ids, reversed_is_token = pad_ids([row[::-1] for row in rows], pad)
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
