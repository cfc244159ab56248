"""Measure how the cost of attention, recurrence and convolution grows on this machine."""

import os
from dataclasses import dataclass
from pathlib import Path

from warmstart.insight import layer_growth
from warmstart.insight.layer_types import LayerSettings, Sweep
from warmstart.report.growth_figure import draw_growth, growth_headers, growth_rows, growth_sections
from warmstart.report.html import bullets, table, write_picture
from warmstart.report.notebook import Shown, show_file
from warmstart.results.growth import Axis, Crossing, Growth, spread_of
from warmstart.runtime import Runtime, choose_runtime, num_cores
from warmstart.settings.looking import LookComplexityConfig


@dataclass(frozen=True)
class ComplexityResult(Shown):
    """How the cost of layers grows with what varies."""

    out: Path | None
    device: str
    axis: Axis
    length: int  # these three where they do not vary
    width: int
    kernel: int
    layers: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    spread: float  # slowest to fastest round of a pass, median
    memory: str  # what the memory figures count
    warning: str | None  # if other work disturbed the measurement

    def pieces(self) -> list[str]:
        figures = [] if self.out is None else [show_file(self.out)]
        rows = table(growth_headers(self.axis), growth_rows(self.layers), left=[1])
        return [*figures, rows, bullets(crossing.sentence for crossing in self.crossings)]


def look_complexity(config: LookComplexityConfig) -> ComplexityResult:
    """Measure how attention, recurrence and convolution grow with length, width or kernel here."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    if runtime.device.type == "cpu" and config.precision == "auto":
        runtime = Runtime(runtime.device)  # in bf16 a CPU computes short rows differently
    sweep = _sweep(config, runtime.device.type)
    load = os.getloadavg()[0]
    growths, crossings = layer_growth.measure_growth(sweep, config.seconds, runtime)
    warning = layer_growth.busy_warning(growths, load, num_cores())
    memory = layer_growth.describe_memory(runtime.device)
    device = layer_growth.describe_device(runtime)
    out = None
    if config.out is not None:
        title = f"How {_fixed(sweep)} grows with {sweep.axis} on {device}"
        notes = [*filter(None, [warning]), layer_growth.TIMING, memory]
        sections = growth_sections(growths, sweep.axis, crossings, title, notes)
        drawing = draw_growth(growths, sweep.axis, title)
        out = write_picture(drawing, f"Growth with {sweep.axis}", sections, Path(config.out))
    return ComplexityResult(
        out=out,
        device=device,
        axis=sweep.axis,
        length=sweep.length,
        width=sweep.settings.width,
        kernel=sweep.settings.kernel,
        layers=tuple(growths),
        crossings=tuple(crossings),
        spread=spread_of(growths),
        memory=memory,
        warning=warning,
    )


def _sweep(config: LookComplexityConfig, device: str) -> Sweep:
    """Return what varies: what has several values, or else the length."""
    widths = config.widths or (layer_growth.WIDTHS[device],)
    settings = LayerSettings(widths[0], config.kernels[0], config.recurrence)
    length = config.lengths[0] if config.lengths else layer_growth.FIXED_LENGTHS[device]
    varied: dict[Axis, tuple[int, ...]] = {"width": widths, "kernel": config.kernels}
    for axis, sizes in varied.items():
        if len(sizes) > 1:
            return Sweep(axis, tuple(sorted(set(sizes))), length, settings)
    lengths = config.lengths or layer_growth.LENGTHS[device]
    return Sweep("length", tuple(sorted(set(lengths))), length, settings)


def _fixed(sweep: Sweep) -> str:
    if sweep.axis == "length":
        return f"one layer of width {sweep.settings.width}"
    width = f" of width {sweep.settings.width}" if sweep.axis == "kernel" else ""
    return f"one layer{width} over {sweep.length:,} tokens"
