"""Show a beam search step by step, with the paths that were dropped."""

from dataclasses import dataclass
from pathlib import Path

from warmstart.decoding.beam import Beam
from warmstart.errors import WarmstartError
from warmstart.inference.text_translator import TextTranslator
from warmstart.insight.beam_tree import watch_beam
from warmstart.loading import load_on
from warmstart.report.beam_figure import beam_sections, draw_beam
from warmstart.report.html import write_picture
from warmstart.report.notebook import ShownFile
from warmstart.results.model_views import BeamTree
from warmstart.settings.looking import LookBeamConfig


@dataclass(frozen=True)
class BeamResult(ShownFile):
    """Every step of a search, and the file that shows them."""

    out: Path
    tree: BeamTree


def look_beam(config: LookBeamConfig) -> BeamResult:
    """Show how a beam search translates one sentence."""
    model = load_on(config.run, config)
    if not isinstance(model, TextTranslator):
        raise WarmstartError(f"{config.run} is {model.description}; a beam needs a translator")
    text = model.text_reader(config.pieces)(config.source)
    beam = Beam(
        width=config.beam, length_penalty=config.length_penalty, num_best=min(3, config.beam)
    )
    tree = watch_beam(model, text, beam)
    title = f"Beam search of {config.run}"
    return BeamResult(
        write_picture(draw_beam(tree), title, beam_sections(tree), Path(config.out)), tree
    )
