"""The settings and commands of `look`: call the verb, print the result."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from warmstart.errors import WarmstartError
from warmstart.formats import quantity, visible
from warmstart.printing import print_json, print_table, quote, say, say_next
from warmstart.settings.base import Settings, argument, option
from warmstart.settings.model import ABLATED_PARTS, Ablation
from warmstart.settings.shared import (
    Documents,
    Machine,
    Precision,
    SplitTexts,
    TextColumn,
    Truncate,
)
from warmstart.textfiles import standard_input

IMAGE_TYPES = (".png", ".svg")
FIGURE_MARKS = (  # of the figures that we write: only these are replaced
    b'<meta name="generator" content="warmstart">',
    b"Software\0warmstart",
    b"<dc:title>warmstart</dc:title>",
)


class FigureFile(Settings):
    """The image that a figure is written to."""

    out: str = option("file to write: .png or .svg", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_figure_file(Path(self.out))


def check_figure_file(out: Path, types: Sequence[str] = IMAGE_TYPES) -> None:
    """Refuse a file of another type, and one that warmstart did not draw."""
    suffix = out.suffix.lower()
    if suffix == ".html" and suffix not in types:
        images = " or ".join(str(out.with_suffix(image)) for image in types)
        raise WarmstartError(f"-o {out}: this figure is an image, not a page; name {images}")
    if suffix not in types:
        raise WarmstartError(f"-o {out} must end in {', '.join(types)}")
    if out.is_dir():
        raise WarmstartError(f"-o {out} is a folder; name a file")
    if not _is_replaceable(out):
        raise WarmstartError(
            f"-o {out} exists already, and warmstart did not draw it; name another file"
        )


def _is_replaceable(path: Path) -> bool:
    """Tell whether nothing is lost when a figure is written to a path."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        start = file.read(4096)
    return not start or any(mark in start for mark in FIGURE_MARKS)


class LookAttentionConfig(SplitTexts, Machine):
    """A run and a text in, its attention weights out."""

    run: str = argument("run folder")
    text: str | None = option("text to read", None, metavar="TEXT", excludes=("source",))
    text2: str | None = option("second text, for a model that reads pairs", None, metavar="TEXT")
    source: str | None = option("sentence to translate", None, metavar="TEXT")
    target: str | None = option("its translation; default: the model's own", None, metavar="TEXT")
    words: bool = option("join pieces to words", False)
    layer: int | None = option(".png, .svg: layer of one head, from 1; needs --head", None, least=1)
    head: int | None = option("head of that layer, from 1; needs --layer", None, least=1)
    part: Literal["self", "encoder", "decoder", "cross"] | None = option(
        ".png, .svg: part to show; default: self, for a translator cross", None, metavar="NAME"
    )
    out: str = option("file to write: .html, .png or .svg", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_figure_file(Path(self.out), (".html", *IMAGE_TYPES))


class LookBeamConfig(FigureFile, SplitTexts, Machine):
    """A translator and a sentence in, every step of the search out."""

    run: str = argument("run folder of a translator")
    source: str = option("sentence to translate", metavar="TEXT")
    beam: int = option("hypotheses kept at each step", 3, least=1, most=12)
    length_penalty: float = option("0: none; more: longer translations", 1.0, least=0, most=10)


class LookExploreConfig(Settings):
    """Small runs in; a page that computes them in the browser out."""

    runs: tuple[str, ...] = argument("run folders: a small classifier, language model, or both")
    text: str = option("text that the page opens with", "I read this book.", metavar="TEXT")
    out: str = option("page to write: .html", short="-o", recorded=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_figure_file(Path(self.out), (".html",))


class LookMaskConfig(FigureFile, SplitTexts):
    """Texts in, their attention masks out."""

    model: str = argument("preset or run folder")
    text: tuple[str, ...] = option("text of the batch; repeat for more", (), metavar="TEXT")
    source: tuple[str, ...] = option("sentence to translate; repeat for more", (), metavar="TEXT")
    target: tuple[str, ...] = option("translation of each --source, in order", (), metavar="TEXT")
    packed: bool = option("texts are documents of one row, as in pretraining", False)


class LookNeuronsConfig(FigureFile, SplitTexts, Machine):
    """A run and a text in, the query-key products of one head out."""

    run: str = argument("run folder")
    text: str = option("text to read", metavar="TEXT")
    layer: int = option("layer, from 1", 1, least=1)
    head: int = option("head of that layer, from 1", 1, least=1)
    query: int | None = option(
        "position of the token that asks, from 1; default: the last", None, least=1
    )


class LookTrainingConfig(FigureFile, SplitTexts, Machine):
    """A language model and a text in; its predictions before, during and after training out."""

    run: str = argument("run folder of a language model")
    text: str = option("text with [MASK], or for a causal model its beginning", metavar="TEXT")
    top_k: int = option("words at each moment", 5, least=1, most=20)


class LookBlockConfig(FigureFile):
    """A model in; the parts of its blocks, and of encoder and decoder, out."""

    model: str = argument("preset or run folder")


class LookTransferConfig(FigureFile):
    """A pretrained model in; what becomes of its parts in a classifier out."""

    model: str = argument("preset or run folder")
    labels: int = option("classes of the classifier", 2, least=2)
    frozen: bool = option("train only the new head", False)


class LookPositionsConfig(FigureFile, Documents, TextColumn, Machine):
    """An architecture in, its position encoding and perplexity by position out."""

    model: str = argument("preset or run folder")
    length: int | None = option(
        "positions to show; default: the model's longest text", None, least=8, most=100_000
    )
    test: str | None = option(
        "text for perplexity by position; needs a causal run", None, holds_rows=True
    )
    past: float = option("read up to this many times the trained length", 2.0, least=1, most=64)


class LookWordConfig(TextColumn, SplitTexts, Machine):
    """A run, a word and texts in; how similar the word's vectors are between the texts out."""

    run: str = argument("run folder of any model")
    word: str = argument("word to compare between texts", metavar="WORD")
    file: str | None = argument(
        "one text per line; default, or -: standard input", None, holds_rows=True
    )
    out: str | None = option("file to write: .png or .svg", None, short="-o", recorded=False)
    truncate: Truncate | None = option("part used of an overlong text; default: the run's", None)
    precision: Precision = option("auto, bf16, fp16: faster, less exact", "fp32", panel="Machine")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.word.strip():
            raise WarmstartError("WORD is empty: name a word that occurs in the texts")
        if self.out is not None:
            check_figure_file(Path(self.out))


class LookAblationsConfig(FigureFile, Machine, panel="Training"):
    """Nothing in; what models lack without one of their parts out."""

    parts: tuple[Ablation, ...] = option(
        f"parts to leave out, one at a time: {', '.join(ABLATED_PARTS)}",
        tuple(ABLATED_PARTS),
        comma_separated=True,
        metavar="PARTS",
    )
    objective: str = option("causal or masked; the latter needs no mask", "causal", metavar="NAME")
    steps: int = option("optimizer steps of each model", 60, least=5)
    depth: int = option("blocks of each model", 2, least=1, most=12)
    seeds: tuple[int, ...] = option("of each variant", (0, 1, 2), least=0, comma_separated=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise WarmstartError(f"--seeds {list(self.seeds)} must be different numbers")


class LookComplexityConfig(Machine, panel="Model"):
    """Nothing in, measured growth with length or width out."""

    out: str | None = option(
        "file to write: .png or .svg", None, short="-o", recorded=False, panel="Input and output"
    )
    lengths: tuple[int, ...] = option(
        "in tokens; default: 128 to 8192, on CUDA 1024 to 262144", (), comma_separated=True, least=2
    )
    widths: tuple[int, ...] = option(
        "of every layer; several: they vary, not lengths; default: 64, on CUDA 512",
        (),
        comma_separated=True,
        least=2,
    )
    seconds: float = option("time to measure, approximately", 50.0, above=0, panel="Machine")

    def __post_init__(self) -> None:
        super().__post_init__()
        num_lengths, num_widths = len(set(self.lengths)), len(set(self.widths))
        if num_lengths > 1 and num_widths > 1:
            raise WarmstartError("--lengths and --widths have several values: vary one at a time")
        if num_lengths == 1 and num_widths < 2:
            raise WarmstartError(f"--lengths {self.lengths[0]}: give two lengths or more")
        if self.out is not None:
            check_figure_file(Path(self.out))


def look_attention(config: LookAttentionConfig) -> None:
    from warmstart.look.attention import look_attention

    unit = "words" if config.words else "tokens"
    for weights in look_attention(config).maps.values():
        shown = weights.by_word() if config.words else weights
        layers, heads = shown.weights.shape[:2]
        entropy = shown.entropy()
        say(
            f"{shown.part}: {layers} × {heads} heads over {len(shown.keys)} {unit}, "
            f"entropy {entropy.min():.2f} to {entropy.max():.2f} bits"
        )
    is_page = config.out.lower().endswith(".html")
    wrote = f"{config.out}: open it in a browser" if is_page else config.out
    say_next(wrote, f"look positions {quote(config.run)} -o positions.png")


def look_beam(config: LookBeamConfig) -> None:
    from warmstart.look.beam import look_beam

    tree = look_beam(config)
    print_table(*tree.table())
    say(tree.sentence)
    say_next(config.out, None)


def look_explore(config: LookExploreConfig) -> None:
    from warmstart.look.explore import look_explore

    page = look_explore(config)
    say(page.sentence)
    say_next(f"{config.out}: open it in a browser", None)


def look_mask(config: LookMaskConfig) -> None:
    from warmstart.look.mask import look_mask

    for mask in look_mask(config).masks:
        say(mask.sentence)
    say_next(config.out, f"look positions {quote(config.model)} -o positions.png")


def look_neurons(config: LookNeuronsConfig) -> None:
    from warmstart.look.neurons import look_neurons

    head = look_neurons(config)
    print_table(*head.table())
    say(head.sentence)
    say_next(config.out, None)


def look_training(config: LookTrainingConfig) -> None:
    from warmstart.look.training import look_training

    training = look_training(config)
    print_table(*training.table())
    say(training.sentence)
    say_next(config.out, None)


def look_block(config: LookBlockConfig) -> None:
    from warmstart.look.block import look_block

    view = look_block(config)
    print_table(*view.table())
    say(view.sentence)
    say_next(config.out, f"params {quote(config.model)}")


def look_transfer(config: LookTransferConfig) -> None:
    from warmstart.look.transfer import look_transfer

    swap = look_transfer(config)
    print_table(*swap.table())
    say(swap.sentence)
    say_next(config.out, None)


def look_positions(config: LookPositionsConfig) -> None:
    from warmstart.look.positions import look_positions

    view = look_positions(config)
    say(view.note)
    if view.curve is not None:
        windows = quantity(view.curve.num_windows, "window")
        print_table(*view.curve.table(), f"mean over {windows} of text")
        for note in view.curve.notes:
            say(note)
    say_next(config.out, "look complexity -o growth.png")


def look_word(config: LookWordConfig, as_json: bool) -> None:
    from warmstart.look.word import look_word

    similarity = look_word(config, standard_input())
    if as_json:
        print_json(similarity.to_json())
        return
    for number, sentence in enumerate(similarity.sentences, 1):
        start, end = similarity.spans[number - 1]
        before, word, after = sentence[:start], sentence[start:end], sentence[end:]
        parts = (f"{number}  {visible(before)}", (visible(word), "bold"), visible(after))
        Console().print(Text.assemble(*parts))
    title = "cosine similarity between the sentences; layer 0: embeddings"
    print_table(*similarity.table(), title)
    say(similarity.sentence)
    if config.out is not None:
        say_next(config.out, None)


def look_complexity(config: LookComplexityConfig, as_json: bool) -> None:
    from warmstart.look.complexity import look_complexity

    growth = look_complexity(config)
    if as_json:
        print_json(asdict(growth))
        return
    print_table(*growth.table(), growth.title)
    if config.out is not None:
        say_next(config.out, "params lab")


def look_ablations(config: LookAblationsConfig, as_json: bool) -> None:
    from warmstart.look.ablations import look_ablations

    ablations = look_ablations(config)
    if as_json:
        print_json([asdict(variant) for variant in ablations.variants])
        return
    print_table(*ablations.table())
    for sentence in ablations.sentences():
        say(sentence)
    say_next(config.out, "pretrain your-text.txt --ablate mask -o runs/broken")
