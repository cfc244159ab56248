"""Attention weights of a text, as a page or a figure."""

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.look.commands import LookAttentionConfig
from warmstart.model.attention_weights import AttentionMap
from warmstart.report.attention import AttentionPage, draw_head, draw_heads, write_attention_page
from warmstart.report.html import Shown, save_image, show_file
from warmstart.tasks.registry import load_transformer
from warmstart.tasks.text_model import TransformerModel
from warmstart.tokenization.tokenizer import Tokenizer, text_reader


@dataclass(frozen=True)
class AttentionResult(Shown):
    """Attention weights by part of the model, and the file that shows them."""

    out: Path
    maps: dict[str, AttentionMap]

    def pieces(self) -> list[str]:
        return [show_file(self.out)]


def look_attention(config: LookAttentionConfig) -> AttentionResult:
    """Show where a model attends in your own text, in every layer and head."""
    model = load_transformer(config.run, config)
    text = config.text if config.source is None else config.source
    if text is None:
        raise WarmstartError("--text is missing (for a translator, --source): the text to read")

    def prepare(text: str | None, tokenizer: Tokenizer) -> str | None:
        return None if text is None else text_reader(tokenizer, config.pieces, model.name)(text)

    target, own = prepare(config.target, model.target_tokenizer), model.tokenizer
    maps = model.attention(prepare(text, own) or "", prepare(config.text2, own), target)
    out = Path(config.out)
    if out.suffix.lower() == ".html":
        write_attention_page(_page(model, config, maps), list(maps.values()), out)
    else:
        save_image(_draw(config, maps), out)
    return AttentionResult(out, maps)


def _page(
    model: TransformerModel, config: LookAttentionConfig, maps: dict[str, AttentionMap]
) -> AttentionPage:
    last = list(maps.values())[-1]
    layers, heads = last.weights.shape[:2]
    tokens = counted(len(last.keys), "token")
    if last.part == "cross":
        tokens += f" → {len(last.queries):,}"
    facts = [model.description, f"{layers} × {heads} layers and heads", tokens]
    if last.part == "cross" and config.target is None:
        facts.append("target: the model's own translation, by greedy search")
    return AttentionPage(title=f"Attention of {model.name}", facts=facts, is_joined=config.words)


def _draw(config: LookAttentionConfig, maps: dict[str, AttentionMap]) -> Figure:
    part = config.part or list(maps)[-1]
    if part not in maps:
        raise WarmstartError(f"--part {part} is not in this model, which has {', '.join(maps)}")
    attention = maps[part].joined() if config.words else maps[part]
    layers, heads = attention.weights.shape[:2]
    for flag, value, most in (("--layer", config.layer, layers), ("--head", config.head, heads)):
        if value is not None and value > most:
            raise WarmstartError(f"{flag} {value} is not in this model, which has {most}")
    if (config.layer is None) != (config.head is None):
        raise WarmstartError("--layer and --head go together: give both, or none for every head")
    if config.layer is None or config.head is None:
        return draw_heads(attention)
    return draw_head(attention, config.layer - 1, config.head - 1)
