"""The model card of an exported folder, for people who did not train the model."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warmstart.interop.export_format import ExportRequest
from warmstart.interop.model_card import RunFacts, card_text, exports

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
