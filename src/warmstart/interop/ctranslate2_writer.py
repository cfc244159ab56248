"""Write a translator or a causal language model for CTranslate2, and check it there."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import tokenizers
import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.interop.ctranslate2_spec import causal_spec, refuse_unknown, translator_spec
from warmstart.interop.export_card import CardUse, exported_card
from warmstart.interop.export_format import (
    PROBES,
    Exported,
    ExportRequest,
    compare_outputs,
    import_library,
    probe_rows,
)
from warmstart.interop.hf_tokenizer_writer import convert_tokenizer
from warmstart.model.models import LanguageModel, Translator
from warmstart.tasks.registry import task_of
from warmstart.tasks.task import num_parameters
from warmstart.tokenization.pair import TARGET_FOLDER
from warmstart.tokenization.tokenizer import Tokenizer

Scores = tuple[Tensor, Tensor]  # their log-probabilities of tokens, and ours

_USE = """
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
engine = ctranslate2.{engine}("FOLDER")
"""


class Vocabulary:
    """The tokens of a tokenizer as tokenizer.json spells them, which CTranslate2 reads and writes.

    Its files are written into a folder.
    """

    def __init__(self, request: ExportRequest, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        is_target = tokenizer is not request.source.tokenizer
        folder = request.folder / TARGET_FOLDER if is_target else request.folder
        folder.mkdir(exist_ok=True)
        converted = convert_tokenizer(request.source, has_segments=False, tokenizer=tokenizer)
        converted.write(folder)
        self._library = tokenizers.Tokenizer.from_buffer(converted.content)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of ids; rows of a model beyond the vocabulary get a name too."""
        return [str(self._library.id_to_token(index) or f"<unused {index}>") for index in ids]

    def fill(self, config: Any) -> None:
        """Name the special tokens."""
        tokenizer = self.tokenizer
        unknown = tokenizer.eos if tokenizer.unk is None else tokenizer.unk
        names = self.tokens([tokenizer.bos, tokenizer.eos, unknown])
        config.bos_token, config.eos_token, config.unk_token = names


class TranslatorFolder:
    """A translator with its vocabularies."""

    engine = "Translator"

    def __init__(self, request: ExportRequest, model: Translator) -> None:
        self.run, self.model = request.source, model
        self.source = self.target = Vocabulary(request, self.run.tokenizer)
        if not self.run.tokenizers.is_joint:
            self.target = Vocabulary(request, self.run.tokenizers.target)

    def spec(self) -> Any:
        """Return what CTranslate2 saves; it puts special tokens around a source."""
        spec = translator_spec(deepcopy(self.model))  # quantising overwrites the weights
        spec.register_source_vocabulary(self.source.tokens(range(self.model.config.vocab_size)))
        spec.register_target_vocabulary(self.target.tokens(range(len(self.model.embedding))))
        self.target.fill(spec.config)
        spec.config.decoder_start_token = spec.config.bos_token
        spec.config.add_source_bos = self.run.tokenizer.has_start
        spec.config.add_source_eos = True
        return spec

    def scores(self, library: Any, folder: str, compute_type: str) -> Scores:
        """Return the log-probabilities of every token of the probes as targets."""
        source, target = self.run.tokenizers.source, self.run.tokenizers.target
        room = self.run.model.max_length - 2
        sources = [ids[:room] for ids in source.encode(PROBES)]
        targets = [ids[:room] for ids in target.encode(PROBES)]
        translator = library.Translator(
            folder, compute_type=compute_type, intra_threads=torch.get_num_threads()
        )
        results = translator.score_batch(
            list(map(self.source.tokens, sources)), list(map(self.target.tokens, targets))
        )
        ours = list[Tensor]()
        for ids, target_ids in zip(sources, targets, strict=True):
            row = torch.tensor([[*source.start, *ids, source.eos]])
            logits = self.model(row, None, torch.tensor([[target.bos, *target_ids]]))
            ours.append(_log_probs(logits, [*target_ids, target.eos]))
        return _joined(results), torch.cat(ours)


class CausalFolder:
    """A causal language model with its vocabulary."""

    engine = "Generator"

    def __init__(self, request: ExportRequest, model: LanguageModel) -> None:
        self.run, self.model = request.source, model
        self.vocabulary = Vocabulary(request, self.run.tokenizer)

    def spec(self) -> Any:
        """Return what CTranslate2 saves."""
        spec = causal_spec(deepcopy(self.model))  # quantising overwrites the weights
        spec.register_vocabulary(self.vocabulary.tokens(range(self.model.config.vocab_size)))
        self.vocabulary.fill(spec.config)
        return spec

    def scores(self, library: Any, folder: str, compute_type: str) -> Scores:
        """Return the log-probabilities of every token of the probes after the first."""
        rows = [row for row in probe_rows(self.run) if len(row) > 1]
        generator = library.Generator(
            folder, compute_type=compute_type, intra_threads=torch.get_num_threads()
        )
        results = generator.score_batch(list(map(self.vocabulary.tokens, rows)))
        ours = [_log_probs(self.model(torch.tensor([row[:-1]])), row[1:]) for row in rows]
        return _joined(results), torch.cat(ours)


def write_ctranslate2(request: ExportRequest) -> Exported:
    """Write the model as CTranslate2 reads it, with its tokenizers."""
    library: Any = import_library("ctranslate2", "ctranslate2")
    model, path = request.model, str(request.folder)
    refuse_unknown(request.source.model)
    folder = _folder(request)
    with torch.inference_mode():
        spec = folder.spec()
        spec.validate()
        spec.optimize("int8" if request.precision == "int8" else None)
        spec.save(path)
        compute_type = "int8" if request.precision == "int8" else "float32"
        check = compare_outputs(request, library, [folder.scores(library, path, compute_type)])
    name, size = type(spec).__name__.removesuffix("Spec"), num_parameters(model)
    use = CardUse(library="ctranslate2", code=_USE.format(engine=folder.engine))
    card = exported_card(request, name, size, use)
    write_whole(request.folder / "README.md", card.encode())
    return Exported(architecture=name, num_parameters=size, check=check)


def _folder(request: ExportRequest) -> TranslatorFolder | CausalFolder:
    model, source = request.model, request.source
    if isinstance(model, Translator):
        return TranslatorFolder(request, model)
    if isinstance(model, LanguageModel) and model.config.is_causal:
        return CausalFolder(request, model)
    raise WarmstartError(
        f"{source.path} is {task_of(source).description}; --to ctranslate2 is for translators and "
        "causal language models, --to onnx for every kind"
    )


def _log_probs(logits: Tensor, ids: Sequence[int]) -> Tensor:
    """Return the log-probability of each of these ids, from logits (1, T, V)."""
    return logits[0].log_softmax(-1)[range(len(ids)), list(ids)]


def _joined(results: Sequence[Any]) -> Tensor:
    return torch.tensor([score for result in results for score in result.log_probs])
