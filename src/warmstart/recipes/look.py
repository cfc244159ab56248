"""See inside: attention, positions and growth with length, each as one picture.

Knows the order of things; how each is computed and drawn stands below.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from warmstart.data.corpus import read_passages
from warmstart.errors import WarmstartError
from warmstart.inference.attention_maps import target_tokenizer_of
from warmstart.insight import complexity, positions
from warmstart.model.backbone import Backbone
from warmstart.model.models import LanguageModel, Translator
from warmstart.predictor import Predictor, load
from warmstart.recipes.reading import reader
from warmstart.report.attention_figure import draw_head, draw_heads
from warmstart.report.attention_page import AttentionPage, write_attention_page
from warmstart.report.complexity import Crossing, Growth, draw_growth, growth_sections
from warmstart.report.formats import counted, shorten
from warmstart.report.images import save_image
from warmstart.report.markup import Section
from warmstart.report.page import write_page
from warmstart.report.positions import PositionView, draw_positions, position_sections
from warmstart.results.attention import AttentionMap
from warmstart.runs.saved import IN_WORDS, Source, read_source
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.base import suggestion
from warmstart.settings.looking import (
    LookAttentionConfig,
    LookComplexityConfig,
    LookPositionsConfig,
)
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class AttentionResult:
    """Where a model looked, and the picture of it."""

    out: Path
    maps: dict[str, AttentionMap]


@dataclass(frozen=True)
class PositionResult:
    """What a model knows of positions, and the picture of it."""

    out: Path
    view: PositionView


@dataclass(frozen=True)
class ComplexityResult:
    """How the cost of layers grows with length."""

    out: Path | None
    device: str
    width: int
    kernel: int
    layers: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    memory: str  # what the memory figures count


def look_attention(config: LookAttentionConfig) -> AttentionResult:
    """Show where a model looks in the user's own text, in every layer and head."""
    predictor = load(config.run, config.device, config.precision, config.threads)
    text = config.text if config.source is None else config.source
    if text is None:
        flag = "--source" if predictor.source.kind == "translator" else "--text"
        raise WarmstartError(f"{flag} is missing: the text to read")

    def read(given: str | None, tokenizer: Tokenizer) -> str | None:
        path = predictor.source.path
        return None if given is None else reader(str(path), tokenizer, config.pieces)(given)

    target = read(config.target, target_tokenizer_of(predictor.source))
    own = predictor.tokenizer
    maps = predictor.attention(read(text, own) or "", read(config.text2, own), target)
    out = Path(config.out)
    if out.suffix.lower() == ".html":
        write_attention_page(_page(predictor, config, maps), list(maps.values()), out)
    else:
        save_image(_still(config, maps), out)
    return AttentionResult(out, maps)


def _page(
    predictor: Predictor, config: LookAttentionConfig, maps: dict[str, AttentionMap]
) -> AttentionPage:
    source, last = predictor.source, list(maps.values())[-1]
    layers, heads = last.weights.shape[:2]
    tokens = counted(len(last.keys), "token")
    if last.part == "cross":
        tokens += f" → {len(last.queries):,}"
    facts = [IN_WORDS[source.kind], f"{layers} × {heads} layers and heads", tokens]
    if last.part == "cross" and config.target is None:
        facts.append("target: the model's own, the likeliest token each time")
    return AttentionPage(title=f"Attention of {source.path}", facts=facts, is_joined=config.words)


def _still(config: LookAttentionConfig, maps: dict[str, AttentionMap]) -> Figure:
    part = config.part or list(maps)[-1]
    if part not in maps:
        raise WarmstartError(f"--part {part} is not in this model, which has {', '.join(maps)}")
    found = maps[part].joined() if config.words else maps[part]
    layers, heads = found.weights.shape[:2]
    for flag, value, most in (("--layer", config.layer, layers), ("--head", config.head, heads)):
        if value is not None and value > most:
            raise WarmstartError(f"{flag} {value} is not in this model, which has {most}")
    if (config.layer is None) != (config.head is None):
        raise WarmstartError("--layer and --head go together: give both, or none for every head")
    if config.layer is None or config.head is None:
        return draw_heads(found)
    return draw_head(found, config.layer - 1, config.head - 1)


def write_drawing(drawing: Figure, title: str, sections: Sequence[Section], out: Path) -> Path:
    """Write a page, or the drawing alone."""
    if out.suffix.lower() == ".html":
        return write_page(title, sections, out)
    return save_image(drawing, out)


def shape_and_run(model: str) -> tuple[ModelConfig, Source | None]:
    """Return the shape of a preset, or of a run with the run itself."""
    if model in PRESETS:
        return PRESETS[model], None
    if not Path(model).is_dir():
        raise WarmstartError(
            f"{model!r} is neither a preset nor a run folder{suggestion(model, PRESETS)}"
        )
    source = read_source(model)
    return source.model, source


def look_positions(config: LookPositionsConfig) -> PositionResult:
    """Show positions, how alike they are, and for a run perplexity by position."""
    shape, source = shape_and_run(config.model)
    if source is None and config.test:
        raise WarmstartError(f"--test needs a run, and {config.model} is a preset")
    predictor = None
    if source is not None:
        predictor = load(config.model, config.device, config.precision, config.threads)
    name = shorten(config.model, 40)
    length = config.length or shape.max_length
    view = positions.view_positions(shape, _backbone(predictor), name, length)
    if predictor is not None and config.test is not None:
        view = with_curve(view, predictor, config)
    title = f"Positions of {config.model}"
    out = write_drawing(draw_positions(view), title, position_sections(view), Path(config.out))
    return PositionResult(out, view)


def _backbone(predictor: Predictor | None) -> Backbone | None:
    if predictor is None:
        return None
    model = predictor.model
    return model.encoder if isinstance(model, Translator) else model.backbone


def with_curve(
    view: PositionView, predictor: Predictor, config: LookPositionsConfig
) -> PositionView:
    """Return the view with perplexity by position on held-back text."""
    model, source = predictor.model, predictor.source
    if not isinstance(model, LanguageModel) or source.kind != "causal":
        raise WarmstartError(
            f"--test: {source.path} is {IN_WORDS[source.kind]}; perplexity by position takes a "
            "causal language model"
        )
    assert config.test is not None
    length, end_note = positions.reach(source.model, config.past)
    windows, window_note = positions.windows_of(_documents(predictor, config), length)
    curve = positions.perplexity_by_position(model, windows, length, predictor.runtime)
    return replace(view, curve=positions.with_notes(curve, window_note, end_note))


def _documents(predictor: Predictor, config: LookPositionsConfig) -> list[list[int]]:
    """Return the documents of the text as ids, each between its marks; enough of them."""
    path, tokenizer = Path(str(config.test)), predictor.tokenizer
    if not path.is_file():
        fault = "is a folder; give one file" if path.is_dir() else "does not exist"
        raise WarmstartError(f"--test {path} {fault}")
    found: list[list[int]] = []
    num_tokens = 0
    for passage in read_passages(path, config.document, config.columns):
        ids = tokenizer.encode(["\n".join(passage.rows)])[0]
        if passage.continues and found:
            found[-1] += ids
        else:
            found.append([tokenizer.bos, *ids])
        num_tokens += len(ids)
        if num_tokens > 2 * positions.MOST_TOKENS:
            break
    return [[*ids, tokenizer.eos] for ids in found]


def look_complexity(config: LookComplexityConfig) -> ComplexityResult:
    """Measure how self-attention, recurrence and convolution grow with length on this machine."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    if runtime.device.type == "cpu" and config.precision == "auto":
        runtime = Runtime(runtime.device)  # a CPU computes short rows in bf16 in another way
    lengths = config.lengths or complexity.LENGTHS[runtime.device.type]
    width = config.width or complexity.WIDTHS[runtime.device.type]
    grown, crossings = complexity.measure_growth(
        lengths, width, config.kernel, config.recurrence, config.seconds, runtime
    )
    memory = complexity.memory_in_words(runtime.device)
    device = complexity.device_in_words(runtime)
    out = None
    if config.out is not None:
        title = f"One layer of width {width} on {device}"
        sections = growth_sections(grown, crossings, title, [complexity.TIMING, memory])
        out = write_drawing(
            draw_growth(grown, title), "Growth with length", sections, Path(config.out)
        )
    return ComplexityResult(
        out, device, width, config.kernel, tuple(grown), tuple(crossings), memory
    )
