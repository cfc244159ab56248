"""Measure how the cost of self-attention, recurrence and convolution grows with length."""

import os
from dataclasses import dataclass
from pathlib import Path

from warmstart.insight import layer_growth
from warmstart.insight.layer_types import LayerSettings
from warmstart.report.growth_figure import HEADERS, draw_growth, growth_rows, growth_sections
from warmstart.report.html import bullets, table, write_picture
from warmstart.report.notebook import Shown, show_file
from warmstart.results.growth import Crossing, Growth, spread_of
from warmstart.runtime import Runtime, choose_runtime, num_cores
from warmstart.settings.looking import LookComplexityConfig


@dataclass(frozen=True)
class ComplexityResult(Shown):
    """How the cost of layers grows with length."""

    out: Path | None
    device: str
    width: int
    kernel: int
    layers: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    spread: float  # slowest to fastest round of a pass, median
    memory: str  # what the memory figures count
    warning: str | None  # if other work disturbed the measurement

    def pieces(self) -> list[str]:
        figures = [] if self.out is None else [show_file(self.out)]
        rows = table(HEADERS, growth_rows(self.layers), left=[1])
        return [*figures, rows, bullets(crossing.sentence for crossing in self.crossings)]


def look_complexity(config: LookComplexityConfig) -> ComplexityResult:
    """Measure how self-attention, recurrence and convolution grow with length on this machine."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    if runtime.device.type == "cpu" and config.precision == "auto":
        runtime = Runtime(runtime.device)  # in bf16 a CPU computes short rows differently
    lengths = config.lengths or layer_growth.LENGTHS[runtime.device.type]
    width = config.width or layer_growth.WIDTHS[runtime.device.type]
    settings = LayerSettings(width, config.kernel, config.recurrence)
    load = os.getloadavg()[0]
    growths, crossings = layer_growth.measure_growth(lengths, settings, config.seconds, runtime)
    warning = layer_growth.busy_warning(growths, load, num_cores())
    memory = layer_growth.describe_memory(runtime.device)
    device = layer_growth.describe_device(runtime)
    out = None
    if config.out is not None:
        title = f"How one layer of width {width} grows with length on {device}"
        notes = [*filter(None, [warning]), layer_growth.TIMING, memory]
        sections = growth_sections(growths, crossings, title, notes)
        drawing = draw_growth(growths, title)
        out = write_picture(drawing, "Growth with length", sections, Path(config.out))
    return ComplexityResult(
        out=out,
        device=device,
        width=width,
        kernel=config.kernel,
        layers=tuple(growths),
        crossings=tuple(crossings),
        spread=spread_of(growths),
        memory=memory,
        warning=warning,
    )
