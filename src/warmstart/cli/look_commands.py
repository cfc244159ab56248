"""The `look` commands: call the recipe, print the result."""

from dataclasses import asdict

from rich.console import Console

from warmstart.cli.options import Command
from warmstart.cli.printing import new_table, print_json, quoted, say, say_next
from warmstart.settings import looking


def attention(config: looking.LookAttentionConfig) -> None:
    """Show the attention weights of a text in every layer and head."""
    from warmstart.recipes.look_attention import look_attention

    result = look_attention(config)
    unit = "words" if config.words else "tokens"
    for weights in result.maps.values():
        shown = weights.joined() if config.words else weights
        layers, heads = shown.weights.shape[:2]
        entropy = shown.entropy()
        say(
            f"{shown.part}: {layers} × {heads} heads over {len(shown.keys)} {unit}, "
            f"entropy {entropy.min():.2f} to {entropy.max():.2f} bits"
        )
    say_next(_written(config.out), f"look positions {quoted(config.run)} -o positions.html")


def mask(config: looking.LookMaskConfig) -> None:
    """Show the attention masks of a batch: causal, padding, document and cross."""
    from warmstart.recipes.look_mask import look_mask

    result = look_mask(config)
    for sentence in result.sentences:
        say(sentence)
    say_next(_written(config.out), f"look positions {quoted(config.model)} -o positions.html")


def positions(config: looking.LookPositionsConfig) -> None:
    """Show the position encoding, and for a run perplexity by position."""
    from warmstart.recipes.look_positions import look_positions

    result = look_positions(config)
    curve = result.view.curve
    if curve is not None:
        table = new_table("around position", "perplexity", "95% interval", "tokens")
        rows = zip(
            curve.positions, curve.perplexity, curve.low, curve.high, curve.tokens, strict=True
        )
        for position, mean, low, high, tokens in rows:
            table.add_row(
                f"{position:,.0f}", f"{mean:,.2f}", f"{low:,.2f} to {high:,.2f}", f"{tokens:,}"
            )
        Console().print(table)
        for note in curve.notes:
            say(note)
    say_next(_written(config.out), "look complexity -o growth.html")


def complexity(config: looking.LookComplexityConfig, as_json: bool) -> None:
    """Measure how the cost of self-attention, recurrence and convolution grows with length."""
    from warmstart.recipes.look_complexity import look_complexity
    from warmstart.report.growth_figure import HEADERS, growth_rows

    result = look_complexity(config)
    if as_json:
        print_json({**asdict(result), "out": result.out and str(result.out)})
        return
    table = new_table(HEADERS[0], "cost", *HEADERS[2:])
    table.title = f"one layer of width {result.width} on {result.device}"
    for row in growth_rows(result.layers):
        table.add_row(*row)
    Console().print(table)
    for crossing in result.crossings:
        say(crossing.sentence)
    say(result.memory)
    if result.out is not None:
        say_next(_written(str(result.out)), "params lab")


def _written(out: str) -> str:
    return f"{out}: open it in a browser" if out.lower().endswith(".html") else out


COMMANDS = (
    Command(
        "look attention",
        "Look inside",
        attention,
        'runs/warm --text "Un livre merveilleux." -o attention.html',
    ),
    Command(
        "look mask",
        "Look inside",
        mask,
        'lab --text "un livre" --text "un très bon livre" -o mask.png',
    ),
    Command(
        "look positions", "Look inside", positions, "runs/base --test novels.txt -o positions.html"
    ),
    Command(
        "look complexity",
        "Look inside",
        complexity,
        "--lengths 256,1024,4096 --width 64 -o growth.png",
    ),
)
