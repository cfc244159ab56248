"""Write LSA or TF-IDF with its regression as an ONNX file that reads texts.

Two operators of onnxruntime, Tokenizer and TfIdfVectorizer, split and count texts as
latent_semantics.py and tfidf.py do. None writes every script in lower case, so texts come prepared:
in lower case, with one space around each word.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warmstart.data.lengths import UNSPACED
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.formats import (
    PROBES,
    ExportRequest,
    ExportResult,
    OutputCheck,
    compare_outputs,
    import_library,
)
from warmstart.interop.onnx_write import OPSET, OnnxSession
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.one_vs_rest import Regressions
from warmstart.tasks.ridge_regression import Line
from warmstart.tasks.tfidf import TfidfModel

NUM_PROBES = 20  # texts that together have every unit and n-gram of the model
PADDING = "<pad>"  # neither a word nor a character
DOMAIN = "com.microsoft"  # of the operator Tokenizer
_WORD = re.compile(r"\w")  # one character
_UNSPACED, _SPACED = re.compile(f"[{UNSPACED}]"), re.compile(rf"[^\W{UNSPACED}]")
_USE = """
import json

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("FOLDER/model.onnx")
text = " ".join(["", *"A text.".lower().split(), ""])  # one space around each word
(outputs,) = session.run(None, {"text": np.array([text])})
"""
_CLASSES = """
names = json.load(open("FOLDER/config.json"))["id2label"].values()
print(dict(zip(names, outputs[0].tolist())))  # the probability of each label
"""
_NUMBER = """
print(outputs[0, 0])  # in the unit of the labels
"""


def write_linear(request: ExportRequest) -> ExportResult:
    """Write the graph of a regression on the features of texts, and check its outputs."""
    import_library("onnx", "onnx")
    if request.precision != "fp32":
        raise WarmstartError(f"--precision {request.precision} is for Transformers: leave it out")
    graph, classes = _Graph(), request.source.classes
    space, tfidf = _features(request.model)
    parts = [] if space is None else [_dimensions(graph, space)]
    parts += [] if tfidf is None else [_ngrams(graph, *named) for named in tfidf.transformer_list]
    columns = graph.add("Concat", *parts, axis=1)
    output = _regression(graph, columns, request.model.model, len(classes))
    write_whole(request.folder / "model.onnx", graph.serialize(output, max(1, len(classes))))
    config = {"model_type": "warmstart", "task": request.source.task}
    labels = {"id2label": dict(enumerate(classes))} if classes else {}
    write_json(request.folder / "config.json", {**config, **labels})
    return ExportResult(
        folder=request.out,
        architecture=type(request.model).__name__,
        num_parameters=sum(tensor.numel() for tensor in request.source.weights.values()),
        code=_USE + (_CLASSES if classes else _NUMBER),
        check=_check(request, request.folder / "model.onnx"),
    )


def _features(model: Any) -> tuple[LatentSpace | None, Any]:
    """Return the space of a model, and its TF-IDF; None: it has none."""
    return (None, model.features) if isinstance(model, TfidfModel) else (model.space, model.tfidf)


class _Graph:
    """Nodes, and the constants that they need."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """Append a node, whose inputs are names or arrays; return the name of its output."""
        from onnx import helper

        names = [given if isinstance(given, str) else self._keep(given) for given in inputs]
        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def _keep(self, values: Any) -> str:
        from onnx import numpy_helper

        array, name = np.asarray(values), f"constant_{len(self.constants)}"
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def split(self, expression: str | None) -> str:
        """Return what matches an expression in each text; None: its characters."""
        how: dict[str, Any] = {"mark": 0, "mincharnum": 1, "pad_value": PADDING, "domain": DOMAIN}
        how |= {"separators": [""]} if expression is None else {"tokenexp": expression}
        return self.add("Tokenizer", "text", **how)

    def count(self, tokens: str, ngrams: Sequence[Sequence[str]]) -> str:
        """Count n-grams of tokens, each in a column."""
        order = sorted(range(len(ngrams)), key=lambda number: len(ngrams[number]))
        sizes = np.array([len(ngrams[number]) for number in order])
        longest = int(sizes.max())
        return self.add(
            "TfIdfVectorizer",
            tokens,
            mode="TF",
            min_gram_length=int(sizes.min()),
            max_gram_length=longest,
            max_skip_count=0,
            ngram_counts=[int(sizes[sizes < size].sum()) for size in range(1, longest + 1)],
            ngram_indexes=order,
            pool_strings=[token for number in order for token in ngrams[number]],
        )

    def normalize(self, columns: str) -> str:
        """Scale each row to length one; zeros stay zeros."""
        length = self.add("ReduceL2", columns, np.array([1]))
        return self.add("Div", columns, self.add("Max", length, np.float32(1e-30)))

    def serialize(self, output: str, width: int) -> bytes:
        """Return the file: texts in, an output of this width out."""
        from onnx import TensorProto, helper

        text = helper.make_tensor_value_info("text", TensorProto.STRING, ["batch"])
        answer = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", width])
        graph = helper.make_graph(self.nodes, "warmstart", [text], [answer], self.constants)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        model: Any = helper.make_model(graph, opset_imports=versions, ir_version=9)
        return bytes(model.SerializeToString())


def _dimensions(graph: _Graph, space: LatentSpace) -> str:
    """Add the dimensions of texts in a space."""
    units = space.words
    characters = [row for row, unit in enumerate(units) if _UNSPACED.match(unit)]
    words = [row for row, unit in enumerate(units) if not _UNSPACED.match(unit)]
    parts = []
    if words:
        tokens = graph.split(f"[{_ranges(_UNSPACED)}]+|[{_ranges(_SPACED)}]+")
        parts.append(graph.count(tokens, [units[row].split(" ") for row in words]))
    if characters:
        parts.append(graph.count(graph.split(None), [units[row] for row in characters]))
    has_unit = graph.add("Min", graph.add("Concat", *parts, axis=1), np.float32(1))
    rows = words + characters
    weighted = graph.normalize(graph.add("Mul", has_unit, space.weights[rows]))
    projection = graph.add("Cast", space.projection[rows], to=1)  # from half precision
    return graph.add("MatMul", weighted, projection)


def _ngrams(graph: _Graph, kind: str, vectorizer: Any) -> str:
    """Add the TF-IDF of words and their pairs, or of characters inside words."""
    names = sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)
    is_words = kind == "words"
    tokens = graph.split(f"[{_ranges(_WORD)}]+" if is_words else None)
    counts = graph.count(tokens, [name.split(" ") for name in names] if is_words else names)
    logs = graph.add("Log", graph.add("Max", counts, np.float32(1)))
    sublinear = graph.add("Add", logs, graph.add("Min", counts, np.float32(1)))
    return graph.normalize(graph.add("Mul", sublinear, vectorizer.idf_))


def _ranges(character: re.Pattern[str]) -> str:
    """Return what a character of Python's expression may be, for the expressions of the graph."""
    codes = [code for code in range(sys.maxunicode + 1) if character.match(chr(code))]
    runs = np.split(np.array(codes), np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)


def _regression(graph: _Graph, columns: str, model: Any, num_classes: int) -> str:
    """Add what a regression says of its columns; return the name of the output."""
    if isinstance(model, Line):
        product = graph.add("MatMul", columns, model.coef[:, None])
        return graph.add("Add", product, np.float32(model.intercept), output="number")
    coef, intercept = model.coef_, model.intercept_
    if len(coef) < len(model.classes_):  # scikit-learn keeps one row for two classes
        coef, intercept = np.vstack([0 * coef, coef]), np.array([0, *intercept])
    weights, offsets = np.zeros((coef.shape[1], num_classes)), np.full(num_classes, -np.inf)
    weights[:, model.classes_], offsets[model.classes_] = coef.T, intercept
    logits = graph.add("Add", graph.add("MatMul", columns, weights), offsets)
    link = "Sigmoid" if isinstance(model, Regressions) else "Softmax"
    return graph.add(link, logits, output="probabilities")


def _check(request: ExportRequest, file: Path) -> OutputCheck:
    """Compare outputs on probes, and on texts of all that the model knows."""
    runtime: Any = import_library("onnxruntime", "onnx")
    space, tfidf = _features(request.model)
    known = [] if space is None else list(space.words)
    for _, vectorizer in [] if tfidf is None else tfidf.transformer_list:
        known += vectorizer.vocabulary_
    texts = [*PROBES, *(" ".join(known[i::NUM_PROBES]) for i in range(NUM_PROBES))]
    prepared = np.array([" ".join(["", *text.lower().split(), ""]) for text in texts])
    (theirs,) = OnnxSession(file)({"text": prepared}).values()
    ours = request.model.outputs(texts, theirs.shape[1])[:, : theirs.shape[1]]  # no margin
    return compare_outputs(request, runtime, [(torch.tensor(theirs), torch.tensor(ours).float())])
