"""Texts -> who may look at whom in the batch they make, as one picture.

Knows nothing about weights: a preset has masks too.
"""

from dataclasses import dataclass
from pathlib import Path

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.inference.attention_maps import target_tokenizer_of
from warmstart.insight import masks
from warmstart.recipes.look import shape_and_run, write_drawing
from warmstart.recipes.reading import reader
from warmstart.report.markup import Section, figure
from warmstart.report.masks import MaskPicture, describe_masks, draw_masks
from warmstart.results.attention import readable
from warmstart.runs.saved import Source
from warmstart.settings.looking import LookMaskConfig


@dataclass(frozen=True)
class MaskResult:
    """Who may look at whom, and the picture of it."""

    out: Path
    masks: tuple[MaskPicture, ...]
    sentences: tuple[str, ...]


def look_mask(config: LookMaskConfig) -> MaskResult:
    """Show who may look at whom in a real batch, and what forbids the rest."""
    pictures = _pictures(config)
    sentences = describe_masks(pictures)
    drawing = draw_masks(pictures)
    caption = "Rows look, columns are looked at. " + "; ".join(sentences) + "."
    section = Section(title="Who may look at whom", pieces=[figure(drawing, caption)])
    out = write_drawing(drawing, f"Masks of {config.model}", [section], Path(config.out))
    return MaskResult(out, tuple(pictures), tuple(sentences))


def _pictures(config: LookMaskConfig) -> list[MaskPicture]:
    shape, source = shape_and_run(config.model)
    is_translator = shape.decoder_depth > 0
    _check_texts(config, is_translator)
    reader = _Reader(source, config.pieces, shape.max_length)
    if is_translator:
        below = [reader.read(text, True)[0] for text in config.source]
        writer = _Reader(source, config.pieces, shape.max_length, is_target=True)
        above = [writer.read(text, False)[0] for text in config.target]
        return [
            *masks.batch_masks(below, False, "encoder mask"),
            *masks.batch_masks(above, True, "decoder mask"),
            *masks.cross_masks(below, above),
        ]
    is_causal = shape.attention == "causal"
    read = [reader.read(text, True) for text in config.text]
    if config.packed:
        tokens = [token for labels, _ in read for token in labels]
        ids = [index for _, numbers in read for index in numbers]
        return [masks.packed_mask(tokens, ids, reader.marks, is_causal)]
    name = "causal mask" if is_causal else "bidirectional mask"
    return masks.batch_masks([labels for labels, _ in read], is_causal, name)


def _check_texts(config: LookMaskConfig, is_translator: bool) -> None:
    if is_translator and (config.text or config.packed):
        raise WarmstartError(
            f"{config.model} is a translator: give --source and --target, not --text or --packed"
        )
    if is_translator and not (config.source and len(config.source) == len(config.target)):
        raise WarmstartError(
            f"--source is given {len(config.source)} times and --target {len(config.target)} "
            "times; a translator needs as many of each, at least one"
        )
    if not is_translator and (config.source or config.target):
        raise WarmstartError(f"{config.model} is no translator: give --text")
    if not is_translator and not config.text:
        raise WarmstartError("--text is missing: the text to show masks of")
    if any(not text.strip() for text in (*config.text, *config.source, *config.target)):
        raise WarmstartError("a text without a word has no mask worth a look")


class _Reader:
    """Texts -> labels and ids: a run's tokens, or for a preset the words."""

    def __init__(
        self, source: Source | None, is_pieces: bool, max_length: int, is_target: bool = False
    ) -> None:
        self.max_length = max_length
        self.words: dict[str, int] = {"<s>": 0, "</s>": 1}
        self.is_pieces, self.marks, self.tokenizer = is_pieces, (0, 1), None
        if source is not None:
            self.path = source.path
            self.tokenizer = target_tokenizer_of(source) if is_target else source.tokenizer
            self.marks = (self.tokenizer.bos, self.tokenizer.eos)

    def read(self, text: str, has_end: bool) -> tuple[list[str], list[int]]:
        if self.tokenizer is None:
            labels = ["<s>", *text.split(), *(["</s>"] if has_end else [])]
            return labels, [self.words.setdefault(word, len(self.words)) for word in labels]
        text = reader(str(self.path), self.tokenizer, self.is_pieces)(text)
        ids = self.tokenizer.encode([text])[0]
        bos, eos = self.marks
        room = self.max_length - 1 - has_end
        if len(ids) > room:
            progress.say(f"the text has {len(ids):,} tokens; {room:,} are read")
            ids = ids[:room]
        ids = [bos, *ids, *([eos] if has_end else [])]
        return [readable(piece) for piece in self.tokenizer.labels(ids)], ids
