"""What every export has: checks, files of its own, a card."""

import importlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportPrecision
from warmstart.jsonfiles import to_json
from warmstart.model.backbone import Layout
from warmstart.model.models import (
    BackboneOnly,
    Classifier,
    LanguageModel,
    SpanFinder,
    TokenClassifier,
    pool,
)
from warmstart.recipes.card import RunFacts, card_text, exports
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.tasks.registry import task_of

# Texts that every export is checked with: several scripts, spaces, and what tokenizers disagree on.
PROBES = (
    "Hello, world! 3.14 isn't 1,000,000.",
    "L'été, à Noël, le cœur naïf des garçons — « déjà » ?",
    "  two  spaces,\ttabs and\nnew lines  ",
    "Straße, ÆØÅ, İstanbul, ﬁne ligatures, e\u0301 and é, Ⅷ ½ ①",
    "漢字とかな、中文字符。한국어 문장",
    "Привет, мир! Ελληνικά עברית العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🎉 🇫🇷 zero\u200bwidth \u00a0 no\u00adbreak",
    "",
    "x" * 40,
)
SPAN_OUTPUTS = ("start_logits", "end_logits")  # of each token, by a model that finds parts
LARGEST_DIFFERENCE = 1e-4  # of any output, in full precision
LARGEST_INT8 = 0.2  # of an int8 export, relative to the spread of the outputs
RUN = "RUN"  # stands for the run folder, which the reader may not have


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """A run to write in another format."""

    source: SavedRun
    model: Any  # a Transformer, or the regression of a baseline
    folder: Path  # temporary; removed if the export fails
    out: Path  # the final name of the folder
    precision: ExportPrecision


@dataclass(frozen=True, kw_only=True)
class OutputCheck:
    """How the outputs of a folder compare with ours, in the library that reads the format."""

    library: str
    version: str
    num_texts: int
    difference: float  # the largest, of any output; of int8, relative to the outputs
    limit: float = LARGEST_DIFFERENCE

    @property
    def summary(self) -> str:
        """Say what was compared, and how much the outputs differ."""
        is_relative = self.limit > LARGEST_DIFFERENCE
        shown = (
            f"{self.difference:.1%} of their spread" if is_relative else f"{self.difference:.1e}"
        )
        return (
            f"{self.library} {self.version} on {self.num_texts} texts: same tokens, outputs differ "
            f"by {shown} at most"
        )

    def require(self, out: Path) -> None:
        """Refuse an export whose outputs differ from ours by more than the limit."""
        if not self.difference <= self.limit:
            raise WarmstartError(
                f"{out} was not written: its outputs in {self.library} differ from ours by "
                f"{self.difference:.1e}, more than {self.limit:.0e}"
            )


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """The folder that was written, and how its outputs compare with ours."""

    folder: Path
    architecture: str
    num_parameters: int
    code: str  # Python that loads FOLDER
    check: OutputCheck | None  # None: the library is not installed


def compare_outputs(
    request: ExportRequest, library: ModuleType, pairs: Iterable[tuple[Tensor, Tensor]]
) -> OutputCheck:
    """Compare the outputs of a library with ours."""
    is_int8 = request.precision == "int8"
    difference = _relative_difference if is_int8 else _largest_difference
    differences = torch.stack([difference(theirs, ours) for theirs, ours in pairs])
    return OutputCheck(
        library=library.__name__,
        version=library.__version__,
        num_texts=len(PROBES),
        difference=float(differences.max()),  # NaN if any output has one
        limit=LARGEST_INT8 if is_int8 else LARGEST_DIFFERENCE,
    )


def _largest_difference(theirs: Tensor, ours: Tensor) -> Tensor:
    """Return the largest difference; outputs above 10, as of numbers, are scaled to it first."""
    return (theirs - ours).abs().max() / (ours.abs().max() / 10).clamp(min=1.0)


def _relative_difference(theirs: Tensor, ours: Tensor) -> Tensor:
    """Return the norm of the difference, relative to that of our outputs around their mean."""
    return (theirs - ours).norm() / (ours - ours.mean()).norm()


def own_outputs(model: nn.Module, ids: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return the outputs of a model that reads texts, under every name that libraries give them."""
    assert isinstance(model, BackboneOnly | Classifier | TokenClassifier | LanguageModel)
    backbone = model.backbone
    hidden = backbone(ids, layout)
    vectors = pool(backbone, hidden, layout.is_token, "mean")
    outputs = {"last_hidden_state": hidden, "sentence_embedding": vectors}
    if isinstance(model, Classifier):
        outputs["logits"] = model.head(backbone, hidden, layout)
    elif isinstance(model, SpanFinder):
        outputs |= dict(zip(SPAN_OUTPUTS, model.head(hidden).unbind(-1), strict=True))
    elif isinstance(model, TokenClassifier):
        outputs["logits"] = model.head(hidden)
    elif isinstance(model, LanguageModel):
        outputs["logits"] = model.head(hidden, backbone.embed.weight)
        outputs["prediction_logits"] = outputs["logits"]
        if hasattr(model, "next_sentence"):
            outputs["seq_relationship_logits"] = model.next_sentence(backbone.pool_first(hidden))
    return outputs


def pair_outputs(
    theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor], is_token: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each output that the library and we both have, as a pair without padding."""
    for name in theirs.keys() & ours.keys():
        has_tokens = ours[name].dim() == 3 or name in SPAN_OUTPUTS
        pair = theirs[name], ours[name]
        yield (pair[0][is_token], pair[1][is_token]) if has_tokens else pair


def probe_layout(config: ModelConfig, is_token: Tensor) -> Layout:
    """Return the layout of padded probes; segments, where a model has several, differ."""
    segments = None
    if config.segments > 1:
        segments = (torch.arange(is_token.shape[1]) % 4 > 1).long().expand_as(is_token)
    return Layout(is_token=is_token, segments=segments)


def probe_rows(source: SavedRun) -> list[list[int]]:
    """Return the ids of every probe as a run reads them."""
    tokenizer, longest = source.tokenizer, source.model.max_length
    end = [tokenizer.eos] if task_of(source).ends_texts else []
    room = longest - 1 - len(end)
    return [[*tokenizer.start, *ids[:room], *end] for ids in tokenizer.encode(PROBES)]


def require_same_tokens(theirs: Sequence[Sequence[int]], ours: Sequence[Sequence[int]]) -> None:
    """Refuse an exported tokenizer that splits a probe in another way."""
    for probe, their_ids, our_ids in zip(PROBES, theirs, ours, strict=True):
        if list(their_ids) != list(our_ids):
            raise WarmstartError(
                f"the exported tokenizer encodes {probe[:40]!r} as {list(their_ids[:8])}…, "
                f"ours as {list(our_ids[:8])}…"
            )


def import_library(name: str, extra: str) -> ModuleType:
    """Import a library that only one format needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise WarmstartError(
            f"--to {extra} needs {error.name}, which is not installed: "
            f"pip install 'warmstart[{extra}]'"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep notes of the libraries, which a user cannot act on, off the terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def exported_card(request: ExportRequest, result: ExportResult, library: str) -> str:
    """Return the card of a run, with what is different in the exported folder."""
    folder, title = request.source.folder, request.out.name
    facts = RunFacts(folder, folder.scores())
    kind = facts.task.description
    intro = (
        f"{kind[0].upper()}{kind[1:]} with {result.num_parameters:,} parameters, exported from "
        f"warmstart as `{result.architecture}`."
    )
    code = result.code.strip().replace("FOLDER", to_json(title)[1:-1])
    use = (
        *("```python", code, "```", ""),
        *(f"With warmstart, where {RUN} is the run that was exported:", "", "```sh"),
        *(facts.task.usage(Path(RUN)), *exports(facts, RUN), "```"),
    )
    return card_text(library, title, intro, facts, iter(use))
