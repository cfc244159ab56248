"""What every export has: checks, files of its own, a card."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportPrecision
from warmstart.recipes.card import RunFacts, card_text, exports
from warmstart.runs.saved import SavedRun
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
LARGEST_DIFFERENCE = 1e-4  # of any output, in full precision
LARGEST_INT8 = 0.2  # of what int8 changes, relative to the spread of the outputs


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """A run to write in another format."""

    source: SavedRun
    model: nn.Module
    folder: Path  # to fill; it disappears if the export fails
    title: str  # the name that the folder will have
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
        """Say what was compared, and what came out."""
        is_relative = self.limit > LARGEST_DIFFERENCE
        shown = (
            f"{self.difference:.1%} of their spread" if is_relative else f"{self.difference:.1e}"
        )
        return (
            f"{self.library} {self.version} on {self.num_texts} texts: same tokens, outputs differ "
            f"by {shown} at most"
        )

    def require(self, out: Path) -> None:
        """Refuse an export whose outputs are not ours."""
        if not self.difference <= self.limit:
            raise WarmstartError(
                f"{out} was not written: its outputs in {self.library} differ from ours by "
                f"{self.difference:.1e}, more than {self.limit:.0e}"
            )


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written."""

    architecture: str
    num_parameters: int
    check: OutputCheck | None  # None: the library is not installed


ExportFormat = Callable[[ExportRequest], Exported]


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
    return (theirs - ours).abs().max()


def _relative_difference(theirs: Tensor, ours: Tensor) -> Tensor:
    """Return the length of the difference, in lengths of our outputs around their mean."""
    return (theirs - ours).norm() / (ours - ours.mean()).norm()


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


RUN = "RUN"  # stands for the run folder, which the reader may not have


@dataclass(frozen=True, kw_only=True)
class CardUse:
    """How a folder is used."""

    library: str  # its name on a model hub
    code: str  # in Python


def exported_card(
    request: ExportRequest, architecture: str, num_parameters: int, use: CardUse
) -> str:
    """Return the card of a run, with what is different in the exported folder."""
    folder = request.source.folder
    facts = RunFacts(folder, folder.scores())
    kind = facts.task.description
    intro = (
        f"{kind[0].upper()}{kind[1:]} with {num_parameters:,} parameters, exported from warmstart "
        f"as `{architecture}`."
    )
    return card_text(use.library, request.title, intro, facts, _use(request, facts, use))


def _use(request: ExportRequest, facts: RunFacts, use: CardUse) -> Iterator[str]:
    yield from ("```python", use.code.strip().replace("FOLDER", request.title), "```", "")
    yield f"With warmstart, where {RUN} is the run that was exported:"
    yield from ("", "```sh", facts.task.usage(Path(RUN)), *exports(facts, RUN), "```")
