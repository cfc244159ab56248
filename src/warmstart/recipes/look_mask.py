"""Show which tokens of a batch may attend to which. A preset has masks too."""

from dataclasses import dataclass
from pathlib import Path

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.insight.attention_masks import (
    MaskTexts,
    batch_masks,
    cross_masks,
    packed_mask,
)
from warmstart.insight.named_model import find_model
from warmstart.report.html import write_picture
from warmstart.report.mask_figure import draw_masks, mask_sections
from warmstart.report.notebook import ShownFile
from warmstart.results.model_views import MaskPicture
from warmstart.settings.looking import LookMaskConfig
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.pair import load_tokenizer_pair
from warmstart.tokenization.tokenizer import Tokenizer, text_reader


@dataclass(frozen=True)
class MaskResult(ShownFile):
    """The masks of a batch, and the file that shows them."""

    out: Path
    masks: tuple[MaskPicture, ...]
    sentences: tuple[str, ...]


def look_mask(config: LookMaskConfig) -> MaskResult:
    """Show which tokens of a batch may attend to which, and what forbids the rest."""
    shape, folder = find_model(config.model)
    _check_texts(config, is_translator=shape.decoder_depth > 0)
    tokenizer = target_tokenizer = None
    if folder:
        tokenizers = load_tokenizer_pair(folder.path)
        tokenizer, target_tokenizer = tokenizers.source, tokenizers.target
    texts = _texts(config, shape.max_length, tokenizer)
    if shape.decoder_depth:
        masks = _translator_masks(config, texts, _texts(config, shape.max_length, target_tokenizer))
    else:
        masks = _masks(config, texts, is_causal=shape.is_causal)
        _report_windows(shape)
    title = f"Masks of {config.model}"
    out = write_picture(draw_masks(masks), title, mask_sections(masks), Path(config.out))
    sentences = [mask.sentence for mask in masks]
    return MaskResult(out, tuple(masks), tuple(sentences))


def _report_windows(shape: ModelConfig) -> None:
    """Say which blocks see less than is shown."""
    num_local = sum(map(shape.is_local, range(shape.depth)))
    if num_local:
        progress.say(
            f"{num_local} of {shape.depth} blocks see only {shape.local_window} tokens on each "
            "side of a token; the mask of the others is shown"
        )


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
        raise WarmstartError("a text is empty; a mask needs at least one word")


def _texts(config: LookMaskConfig, max_length: int, tokenizer: Tokenizer | None) -> MaskTexts:
    prepare = text_reader(tokenizer, config.pieces, config.model) if tokenizer else str
    return MaskTexts(max_length, tokenizer, prepare)


def _masks(config: LookMaskConfig, texts: MaskTexts, is_causal: bool) -> list[MaskPicture]:
    splits = [texts.split(text, has_end=True) for text in config.text]
    if config.packed:
        labels = [label for labels, _ in splits for label in labels]
        ids = [index for _, ids in splits for index in ids]
        return [packed_mask(labels, ids, texts.bos, texts.eos, is_causal)]
    name = "causal mask" if is_causal else "bidirectional mask"
    return batch_masks([labels for labels, _ in splits], is_causal, name)


def _translator_masks(
    config: LookMaskConfig, source_texts: MaskTexts, target_texts: MaskTexts
) -> list[MaskPicture]:
    sources = [source_texts.split(text, has_end=True)[0] for text in config.source]
    targets = [target_texts.split(text, has_end=False)[0] for text in config.target]
    return [
        *batch_masks(sources, False, "encoder mask"),
        *batch_masks(targets, True, "decoder mask"),
        *cross_masks(sources, targets),
    ]
