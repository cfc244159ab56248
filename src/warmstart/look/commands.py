"""The commands that look inside a model: call the recipe, print the result."""

from dataclasses import asdict

from warmstart.look import settings as looking
from warmstart.printing import print_json, print_table, quoted, say, say_next


def look_attention(config: looking.LookAttentionConfig) -> None:
    """Show the attention weights of a text in every layer and head."""
    from warmstart.look.attention import look_attention

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


def look_beam(config: looking.LookBeamConfig) -> None:
    """Show a beam search step by step, with the paths that were dropped."""
    from warmstart.look.beam import ending_rows, look_beam

    result = look_beam(config)
    print_table(("translation", "score"), ending_rows(result.tree))
    say(result.tree.sentence)
    say_next(_written(config.out), None)


def look_mask(config: looking.LookMaskConfig) -> None:
    """Show the attention masks of a batch: causal, padding, document and cross."""
    from warmstart.look.mask import look_mask

    result = look_mask(config)
    for sentence in result.sentences:
        say(sentence)
    say_next(_written(config.out), f"look positions {quoted(config.model)} -o positions.html")


def look_neurons(config: looking.LookNeuronsConfig) -> None:
    """Show the query-key products of one head, neuron by neuron."""
    from warmstart.look.neurons import HEADERS, look_neurons, neuron_rows

    head = look_neurons(config).head
    print_table(HEADERS, neuron_rows(head))
    say(head.sentence)
    say_next(_written(config.out), None)


def look_training(config: looking.LookTrainingConfig) -> None:
    """Show what a language model predicts before, during and after its training."""
    from warmstart.look.training import look_training, moment_rows

    moments = look_training(config).moments
    print_table(("moment", "words"), moment_rows(moments))
    say(moments.sentence)
    say_next(_written(config.out), None)


def look_transfer(config: looking.LookTransferConfig) -> None:
    """Show what replacing the head keeps, throws away and adds, with shapes and counts."""
    from warmstart.look.transfer import HEADERS, look_transfer, transfer_rows

    swap = look_transfer(config).swap
    print_table((HEADERS[0], "formula", *HEADERS[2:]), transfer_rows(swap))
    say(swap.sentence)
    say_next(_written(config.out), None)


def look_positions(config: looking.LookPositionsConfig) -> None:
    """Show the position encoding, and for a run perplexity by position."""
    from warmstart.look.positions import look_positions

    result = look_positions(config)
    curve = result.view.curve
    if curve is not None:
        rows = [
            (f"{position:,.0f}", f"{mean:,.2f}", f"{low:,.2f} to {high:,.2f}", f"{tokens:,}")
            for position, mean, low, high, tokens in zip(
                curve.positions, curve.perplexity, curve.low, curve.high, curve.tokens, strict=True
            )
        ]
        print_table(("around position", "perplexity", "95% interval", "tokens"), rows)
        for note in curve.notes:
            say(note)
    say_next(_written(config.out), "look complexity -o growth.html")


def look_complexity(config: looking.LookComplexityConfig, as_json: bool) -> None:
    """Measure how the cost of self-attention, recurrence and convolution grows."""
    from warmstart.look.complexity import growth_headers, growth_rows, look_complexity

    result = look_complexity(config)
    if as_json:
        print_json({**asdict(result), "out": result.out and str(result.out)})
        return
    fixed = f"{result.length:,} tokens" if result.axis != "length" else f"width {result.width}"
    headers, title = growth_headers(result.axis), f"one layer, {fixed}, on {result.device}"
    print_table((headers[0], "cost", *headers[2:]), growth_rows(result.layers), title)
    for crossing in result.crossings:
        say(crossing.sentence)
    say(f"slowest round of a pass: {result.spread:.2f} times the fastest, in the median")
    say(result.memory)
    if result.warning:
        say(result.warning)
    if result.out is not None:
        say_next(_written(str(result.out)), "params lab")


def look_ablations(config: looking.LookAblationsConfig, as_json: bool) -> None:
    """Train small models without one of their parts, and show what each part is for."""
    from warmstart.look.ablations import HEADERS, ablation_rows, failures, look_ablations

    result = look_ablations(config)
    if as_json:
        print_json([asdict(variant) for variant in result.variants])
        return
    print_table(HEADERS, ablation_rows(result.variants))
    for failure in failures(result.variants):
        say(failure)
    say_next(_written(config.out), "pretrain your-text.txt --ablate mask -o runs/broken")


def _written(out: str) -> str:
    return f"{out}: open it in a browser" if out.lower().endswith(".html") else out
