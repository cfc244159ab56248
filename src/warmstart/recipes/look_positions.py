"""Show how a model represents positions, and for a run perplexity by position."""

from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.insight.named_model import find_model
from warmstart.insight.position_view import perplexity_of_file, view_positions
from warmstart.loading import load_transformer
from warmstart.report.html import write_picture
from warmstart.report.notebook import ShownFile
from warmstart.report.positions_figure import draw_positions, position_sections
from warmstart.results.model_views import PositionView
from warmstart.settings.looking import LookPositionsConfig


@dataclass(frozen=True)
class PositionResult(ShownFile):
    """The positions of a model, and the file that shows them."""

    out: Path
    view: PositionView


def look_positions(config: LookPositionsConfig) -> PositionResult:
    """Show positions, how similar they are, and for a run perplexity by position."""
    shape, folder = find_model(config.model)
    name, length = shorten(config.model, 40), config.length or shape.max_length
    if folder is None:
        if config.test:
            raise WarmstartError(f"--test needs a run, and {config.model} is a preset")
        view = view_positions(shape, None, name, length)
    else:
        predictor = load_transformer(config.model, config)
        view = view_positions(shape, predictor.backbone, name, length)
        if config.test is not None:
            view = replace(view, curve=perplexity_of_file(predictor, config, Path(config.test)))
    title = f"Positions of {config.model}"
    out = write_picture(draw_positions(view), title, position_sections(view), Path(config.out))
    return PositionResult(out, view)
