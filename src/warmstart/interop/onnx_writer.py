"""Write a run as ONNX files with its tokenizer, and check them with onnxruntime."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from warmstart.files import write_json, write_whole
from warmstart.interop.export_card import CardUse, exported_card
from warmstart.interop.export_format import Exported, ExportRequest, import_library
from warmstart.interop.hf_tokenizer_writer import convert_tokenizer
from warmstart.interop.onnx_check import check_graphs
from warmstart.interop.onnx_graphs import CACHE_AXES, SIZES, Axes, Graph, graphs_of
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.tasks.task import num_parameters
from warmstart.tokenization.pair import TARGET_FOLDER

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
print(config["id2label"][str(outputs["logits"].argmax())])
"""


def write_onnx(request: ExportRequest) -> Exported:
    """Write one file for each graph of a model; int8 quantises the weights of its products."""
    for library in ("onnx", "onnxscript", "onnxruntime"):
        import_library(library, "onnx")
    source, model, folder = request.source, request.model, request.folder
    convert_tokenizer(source, source.model.segments > 1).write(folder)
    if not source.tokenizers.is_joint:
        target = folder / TARGET_FOLDER
        target.mkdir()
        convert_tokenizer(source, False, source.tokenizers.target).write(target)
    graphs = graphs_of(model)
    for graph in graphs:
        _record(graph, folder / graph.file, source.model)
        if request.precision == "int8":
            _quantize(folder / graph.file)
    write_json(folder / "config.json", _config(source))
    check = check_graphs(request, graphs)
    name, size = type(model).__name__, num_parameters(model)
    code = _USE.replace("{file}", graphs[0].file) + (_LABEL if source.config.get("classes") else "")
    use = CardUse(library="onnx", code=code)
    write_whole(folder / "README.md", exported_card(request, name, size, use).encode())
    return Exported(architecture=name, num_parameters=size, check=check)


def _record(graph: Graph, file: Path, config: ModelConfig) -> None:
    """Export a graph with its example inputs; the axes that have names stay free."""
    inputs, shapes, names = dict[str, Any](), dict[str, Any](), list[str]()
    for name, axes in graph.inputs.items():
        inputs[name], shapes[name] = _example(axes), axes
        names.append(name)
    for name, caches in graph.caches.items():
        axes = CACHE_AXES[name]
        inputs[name] = [_example_cache(axes, config) for _ in caches]
        shapes[name] = [axes] * len(caches)
        names += caches
    with _quiet():
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
    for node in exported.graph.node:  # where our source lies on this machine
        node.ClearField("metadata_props")
    # Of weights that were transposed, noted shapes are those from before; readers infer them anew.
    exported.graph.ClearField("value_info")
    write_whole(file, exported.SerializeToString())


def _example(axes: Axes) -> Tensor:
    return torch.ones([SIZES[axis] for axis in axes.values()], dtype=torch.long)


def _example_cache(axes: Axes, config: ModelConfig) -> Tensor:
    return torch.zeros(
        SIZES[axes[0]], config.heads, SIZES[axes[2]], config.width // config.heads
    )  # (B, H, P, K)


def _quantize(file: Path) -> None:
    """Replace the weights of matrix products and embeddings by integers of 8 bits."""
    quantization = import_library("onnxruntime.quantization", "onnx")
    with _quiet():
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
    if source.classes:
        config["id2label"] = dict(enumerate(source.classes))
    else:
        num_ids = model.target_vocab_size or model.vocab_size
        config["suppress_tokens"] = target.suppressed_ids(num_ids)
    return config


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep notes of the libraries, which a user cannot act on, off the terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
