"""Show the query-key products of one head, neuron by neuron."""

from dataclasses import dataclass
from pathlib import Path

from warmstart.insight.head_products import head_products
from warmstart.loading import load_transformer
from warmstart.report.html import write_picture
from warmstart.report.neurons_figure import draw_neurons, neuron_sections
from warmstart.report.notebook import ShownFile
from warmstart.results.model_views import HeadProducts
from warmstart.settings.looking import LookNeuronsConfig


@dataclass(frozen=True)
class NeuronsResult(ShownFile):
    """The products of one query, and the file that shows them."""

    out: Path
    head: HeadProducts


def look_neurons(config: LookNeuronsConfig) -> NeuronsResult:
    """Show how one head compares one token with all others, neuron by neuron."""
    model = load_transformer(config.run, config)
    head = head_products(model, config, model.text_reader(config.pieces)(config.text))
    title = f"Neurons of {config.run}"
    out = write_picture(draw_neurons(head), title, neuron_sections(head), Path(config.out))
    return NeuronsResult(out, head)
