"""The position encoding, and perplexity by position."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from warmstart import progress
from warmstart.data.corpus import Passage, read_passages
from warmstart.errors import WarmstartError
from warmstart.formats import quantity, shorten
from warmstart.look.commands import LookPositionsConfig
from warmstart.model.attention import frequencies, sinusoids
from warmstart.model.backbone import Backbone
from warmstart.model.models import LanguageModel
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, INK, WIDTH, save_image, styled
from warmstart.runs.saved import find_model
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.registry import load_transformer
from warmstart.tasks.text_model import TransformerModel
from warmstart.textfiles import describe_missing
from warmstart.tokenization.tokenizer import Tokenizer

CPU = torch.device("cpu")
SINUSOIDAL_NOTE = (
    "The dot product of two sinusoidal positions depends only on their distance: it is the mean of"
    " cos(distance × frequency) over all frequencies."
)
ROTARY_NOTE = (
    "Query and key are rotated by an angle that grows with position, so their product depends only"
    " on the distance. Drawn: the mean score, over random queries, of a query with a key equal to"
    " it, relative to the score at distance 0."
)
UNTRAINED_NOTE = (
    "Not trained: learned positions start as random numbers, and no two are similar. Name a run to"
    " see what training made of them."
)
LEARNED_NOTE = (
    "The band shows the least and the most similar of all pairs at that distance: the similarity of"
    " learned positions need not depend only on the distance."
)
Array = NDArray[np.float64]
MAX_BUCKETS = 32  # points of the curve
MIN_WINDOWS = 8  # full windows; with fewer, shorter ones are used too
NUM_RESAMPLES = 500
MAX_LOGITS = 1 << 25  # computed at once
MAX_TOKENS = 400_000  # scored for the curve
WARM, COLD = "#d5521c", "#2166ac"
MARKERS = "ox+"  # of single positions
COLUMNS = {
    "sinusoidal": "column of the vector: the sines, then the cosines, of decreasing frequency",
    "learned": "column of the learned vector",
    "rope": "pair of columns: cosine of its rotation angle",
}


@dataclass(frozen=True, kw_only=True)
class PositionSimilarity:
    """Similarity of two positions by the distance between them; on average 1 at distance 0."""

    distances: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]  # over all pairs at that distance
    high: NDArray[np.float64]
    by_start: Mapping[int, NDArray[np.float64]] = field(
        default_factory=dict
    )  # from single positions onwards


def similarity(vectors: NDArray[np.float64]) -> PositionSimilarity:
    """Return the products of all pairs of positions by distance, relative to distance 0."""
    T = len(vectors)
    products = vectors @ vectors.T / np.square(vectors).sum(1).mean()  # (T, T)
    by_distance = [np.diagonal(products, distance) for distance in range(T - max(1, T // 8))]
    return PositionSimilarity(
        distances=np.arange(len(by_distance), dtype=np.float64),
        mean=np.array([values.mean() for values in by_distance]),
        low=np.array([values.min() for values in by_distance]),
        high=np.array([values.max() for values in by_distance]),
        by_start={p: products[p, p:][: len(by_distance)] for p in (0, T // 4, T // 2)},
    )


@dataclass(frozen=True, kw_only=True)
class PerplexityByPosition:
    """How well a language model predicts the token after each position."""

    positions: NDArray[np.float64]  # middle of each range of positions
    perplexity: NDArray[np.float64]
    low: NDArray[np.float64]  # 95% interval over windows of text
    high: NDArray[np.float64]
    tokens: NDArray[np.int64]  # predicted in each range
    trained_length: int
    num_windows: int
    notes: tuple[str, ...]  # what a reader must know

    def table(self) -> Table:
        """Return headers, and a row for each range of positions."""
        rows = [
            (f"{position:,.0f}", f"{mean:,.2f}", f"{low:,.2f} to {high:,.2f}", f"{tokens:,}")
            for position, mean, low, high, tokens in zip(
                self.positions, self.perplexity, self.low, self.high, self.tokens, strict=True
            )
        ]
        return ("around position", "perplexity", "95% interval", "tokens"), rows


@dataclass(frozen=True, kw_only=True)
class PositionView(Drawn):
    """The position encoding of a model."""

    name: str  # preset or run
    kind: str  # sinusoidal, learned or rope
    vectors: NDArray[np.float64]  # (positions, columns) between -1 and 1
    similarity: PositionSimilarity
    note: str
    curve: PerplexityByPosition | None = None

    @styled
    def draw(self) -> Figure:
        """Draw vectors, similarity and, where it was measured, perplexity."""
        rows = 2 + (self.curve is not None)
        drawing = Figure(figsize=(WIDTH, 3.4 * rows), layout="constrained")
        grid = drawing.subplots(rows, 1)
        _draw_vectors(grid[0], self)
        _draw_similarity(grid[1], self)
        if self.curve is not None:
            _draw_curve(grid[2], self.curve)
        return drawing


def look_positions(config: LookPositionsConfig) -> PositionView:
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
    save_image(view.draw(), Path(config.out))
    return view


def view_positions(
    shape: ModelConfig, backbone: Backbone | None, name: str, length: int
) -> PositionView:
    """Return the vectors of positions and their similarity; learned ones come from `backbone`."""
    if shape.positions == "rope":
        return _view_rotary(shape, name, length)
    if shape.positions == "sinusoidal":
        vectors, note = sinusoids(length, shape.width, CPU).numpy(), SINUSOIDAL_NOTE
    elif shape.positions != "learned":
        raise WarmstartError(f"{name}: there is no picture of {shape.positions} positions")
    elif backbone is None:
        size = (min(length, shape.max_length), shape.width)
        random = torch.randn(size, generator=torch.Generator().manual_seed(0))
        vectors, note = 0.02 * random.double().numpy(), UNTRAINED_NOTE
    else:
        weight = backbone.embed_positions.weight[:length]
        vectors, note = weight.detach().double().cpu().numpy(), LEARNED_NOTE
    return PositionView(
        name=name, kind=shape.positions, vectors=vectors, similarity=similarity(vectors), note=note
    )


def _view_rotary(shape: ModelConfig, name: str, length: int) -> PositionView:
    speeds = frequencies(shape.width // shape.heads // 2, CPU, shape.rope_base).numpy()
    distances = np.arange(length, dtype=np.float64)
    cosines = np.cos(distances[:, None] * speeds)  # (T, K / 2)
    mean = cosines.mean(1)
    by_distance = PositionSimilarity(distances=distances, mean=mean, low=mean, high=mean)
    return PositionView(
        name=name, kind="rope", vectors=cosines, similarity=by_distance, note=ROTARY_NOTE
    )


def perplexity_of_file(
    predictor: TransformerModel, config: LookPositionsConfig, file: Path
) -> PerplexityByPosition:
    """Return perplexity by position on the text of a file."""
    model = predictor.model
    if not isinstance(model, LanguageModel) or not model.config.is_causal:
        raise WarmstartError(
            f"--test: {predictor.name} is {predictor.description}; perplexity by position needs a "
            "causal language model"
        )
    if not file.is_file():
        fault = "is a folder; give one file" if file.is_dir() else describe_missing(file)
        raise WarmstartError(f"--test {file} {fault}")
    length, length_note = longest_length(model.config, config.past)
    passages = read_passages(file, config.document, config)
    windows, window_note = cut_windows(_read_documents(passages, predictor.tokenizer), length)
    curve = perplexity_by_position(model, windows, length, predictor.runtime)
    return replace(curve, notes=tuple(note for note in (window_note, length_note) if note))


def _read_documents(passages: Iterable[Passage], tokenizer: Tokenizer) -> list[list[int]]:
    """Return documents as ids between special tokens, until there are enough for the curve."""
    documents: list[list[int]] = []
    num_tokens = 0
    for passage in passages:
        ids = tokenizer.encode(["\n".join(passage.rows)])[0]
        if passage.continues and documents:
            documents[-1] += ids
        else:
            documents.append([tokenizer.bos, *ids])
        num_tokens += len(ids)
        if num_tokens > 2 * MAX_TOKENS:
            break
    return [[*ids, tokenizer.eos] for ids in documents]


def cut_windows(documents: Sequence[Sequence[int]], length: int) -> tuple[list[list[int]], str]:
    """Cut documents into windows of `length` + 1 tokens; return them and a note about them."""
    size = length + 1
    windows = [
        list(ids[start : start + size])
        for ids in documents
        for start in range(0, len(ids), size)
        if len(ids) - start > 1
    ]
    full = [window for window in windows if len(window) == size]
    if len(full) >= MIN_WINDOWS:
        return full, "Every position is averaged over the same windows of text."
    if not windows:
        raise WarmstartError("--test holds no text of two or more tokens")
    return windows, (
        f"The text has only {quantity(len(full), 'window')} of {length:,} tokens, so shorter ones"
        " are used too: late positions are averaged over other texts than early ones."
    )


def longest_length(shape: ModelConfig, past: float) -> tuple[int, str]:
    """Return up to which position a model can predict, and a note if that ends the curve."""
    if shape.positions == "learned":
        return shape.max_length, (
            f"Learned positions end at the trained length: there is no vector for position"
            f" {shape.max_length:,}, so the curve ends there."
        )
    return max(2, int(shape.max_length * past)), ""


def perplexity_by_position(
    model: LanguageModel, windows: Sequence[Sequence[int]], length: int, runtime: Runtime
) -> PerplexityByPosition:
    """Score windows of text, and average over buckets of positions."""
    backbone, trained = model.backbone, model.config.max_length
    if model.config.positions == "sinusoidal" and length > trained:
        table = sinusoids(length, model.config.width, runtime.device).float()
        backbone.register_buffer("sinusoids", table, persistent=False)
    losses = _losses(model, windows[: max(1, MAX_TOKENS // length)], length, runtime)
    edges = np.linspace(0, length, min(MAX_BUCKETS, length) + 1).round().astype(int)
    # No bucket spans the trained length, where the curve may jump.
    edges = np.unique([*edges, min(trained, length)])
    sums = np.add.reduceat(np.nan_to_num(losses), edges[:-1], axis=1)  # (windows, buckets)
    counts = np.add.reduceat(np.isfinite(losses).astype(np.int64), edges[:-1], axis=1)
    is_used = counts.sum(0) >= 2
    mean, low, high = _intervals(sums[:, is_used], counts[:, is_used])
    return PerplexityByPosition(
        positions=((edges[:-1] + edges[1:] - 1) / 2)[is_used],
        perplexity=np.exp(mean),
        low=np.exp(low),
        high=np.exp(high),
        tokens=counts.sum(0)[is_used],
        trained_length=trained,
        num_windows=len(losses),
        notes=(),
    )


@torch.inference_mode()
def _losses(
    model: LanguageModel, windows: Sequence[Sequence[int]], length: int, runtime: Runtime
) -> Array:
    """Return the loss of the token after each position (windows, length); NaN if there is none."""
    losses = np.full((len(windows), length), np.nan)
    size = max(1, MAX_LOGITS // (length * model.config.vocab_size))
    with progress.bar("reading text", len(windows), "window") as bar:
        for start in range(0, len(windows), size):
            rows = [torch.tensor(window) for window in windows[start : start + size]]
            ids = pad_sequence(rows, batch_first=True, padding_value=-1).to(runtime.device)
            targets = ids[:, 1:]  # (B, T)
            with runtime.precision():  # padding comes last, so no token sees it
                logits = model(ids[:, :-1].clamp(min=0))  # (B, T, V)
            loss = F.cross_entropy(
                logits.float().transpose(1, 2), targets, reduction="none", ignore_index=-1
            ).double()
            loss[targets < 0] = torch.nan
            losses[start : start + size, : targets.shape[1]] = loss.cpu().numpy()
            bar.advance(len(rows))
    return losses


def _intervals(sums: Array, counts: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """Return each bucket's mean loss and its 95% bootstrap interval over windows."""
    W = len(sums)
    rng = np.random.Generator(np.random.PCG64(0))
    draws = rng.multinomial(W, np.full(W, 1 / W), NUM_RESAMPLES).astype(np.float64)
    totals = draws @ counts  # (resamples, buckets)
    means = np.where(totals > 0, (draws @ sums) / np.maximum(totals, 1), np.nan)
    low, high = np.nanquantile(means, [0.025, 0.975], axis=0)
    return sums.sum(0) / counts.sum(0), low, high


def _columns(view: PositionView) -> NDArray[np.int64]:
    """Return the columns in the order of the picture: sines and cosines take turns in a vector."""
    columns = np.arange(view.vectors.shape[1])
    if view.kind != "sinusoidal":
        return columns
    return np.concatenate([columns[0::2], columns[1::2]])


def _draw_vectors(axes: Axes, view: PositionView) -> None:
    most = float(np.abs(view.vectors).max()) or 1.0
    order = _columns(view)
    image = axes.imshow(view.vectors[:, order], cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    image.set_interpolation("nearest")
    if view.kind == "sinusoidal":
        half = len(order) // 2
        axes.axvline(half - 0.5, color="white", linewidth=3)
        ticks = [*range(0, half, max(1, half // 4)), *range(half, 2 * half, max(1, half // 4))]
        axes.set_xticks(ticks, [str(order[tick]) for tick in ticks])
    axes.grid(False)
    axes.set_ylabel("position")
    axes.set_xlabel(COLUMNS[view.kind])
    axes.set_title(f"{view.name}: {view.kind} positions")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=24, pad=0.015)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0)


def _draw_similarity(axes: Axes, view: PositionView) -> None:
    distances, low, high = view.similarity.distances, view.similarity.low, view.similarity.high
    axes.axhline(0, color=FAINT, linewidth=0.7)
    if float((high - low).max()) > 1e-6:
        axes.fill_between(distances, low, high, color=WARM, alpha=0.16, lw=0)
    axes.plot(distances, view.similarity.mean, color=WARM, label="mean over all positions")
    starts = sorted(view.similarity.by_start.items())
    for number, (start, values) in enumerate(starts):  # in turns, so that equal curves stay visible
        turns = slice(number, None, len(starts))
        points = distances[: len(values)][turns], values[turns]
        axes.plot(*points, MARKERS[number], color=INK, markersize=4, label=f"from position {start}")
    if starts:
        axes.legend(frameon=False)
    axes.set_xlim(0, float(distances[-1]))
    axes.set_xlabel("distance in tokens")
    axes.set_ylabel("mean score" if view.kind == "rope" else "dot product, relative")
    compared = "rotated query · key" if view.kind == "rope" else "two positions, 1 at distance 0"
    axes.set_title(f"Similarity against distance: {compared}")


def _draw_curve(axes: Axes, curve: PerplexityByPosition) -> None:
    axes.fill_between(curve.positions, curve.low, curve.high, color=COLD, alpha=0.16, lw=0)
    axes.plot(curve.positions, curve.perplexity, color=COLD, marker="o", markersize=2.5)
    axes.set_yscale("log")
    axes.axvline(curve.trained_length, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(
        f"trained length {curve.trained_length:,}",
        (curve.trained_length, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -9),
        textcoords="offset points",
        ha="right",
        fontsize=7.5,
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:,.3g}")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.set_xlabel("position of the token in its window")
    axes.set_ylabel("perplexity of the next token")
    axes.set_title("Perplexity by position, with 95% intervals over windows of text")
