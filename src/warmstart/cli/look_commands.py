"""The commands that look inside a model or a job: call the recipe, print the result."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from warmstart.cli.options import Command
from warmstart.cli.printing import print_json, print_table, quoted, say, say_next
from warmstart.settings import looking

if TYPE_CHECKING:
    from warmstart.insight.devices import Device
    from warmstart.insight.job_plan import JobPlan
    from warmstart.insight.several_devices import SharedStep
    from warmstart.insight.training_job import TrainingJob


def params(config: looking.ParamsConfig, as_json: bool) -> None:
    """Count the parameters of every layer, with formulas."""
    from warmstart.recipes.params import HEADERS, count_parameters

    count = count_parameters(config)
    if as_json:
        print_json(asdict(count))
        return
    print_table(HEADERS, count.rows(), totals=count.totals())
    say(count.legend)
    if count.paper:
        say(f"{count.total:,} parameters: {count.paper}")


def plan(config: looking.PlanConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of a job, and whether it fits."""
    from warmstart.recipes import plan as recipe

    if config.on == "list":
        _print_devices(recipe.devices(), as_json)
        return
    planned = recipe.plan(config)
    if as_json:
        print_json(_plan_json(planned))
    else:
        _print_plan(planned)


def _print_devices(devices: "dict[str, Device]", as_json: bool) -> None:
    if as_json:
        print_json({name: asdict(device) for name, device in devices.items()})
        return
    rows = []
    for name, device in devices.items():
        numbers = (device.memory_gib, device.fp32_tflops, device.bf16_tflops, device.bandwidth_gb)
        cells = ("–" if number is None else f"{number:g}" for number in numbers)
        rows.append((name, device.title, *cells))
    headers = ("--on", "device", "memory, GiB", "fp32", "bf16", "GB/s")
    print_table(headers, rows, "dense TFLOP/s and bandwidth, by data sheet")


def _print_plan(planned: "JobPlan") -> None:
    from warmstart.insight.flops import legend
    from warmstart.insight.job_plan import sentences

    job = planned.job
    headers = ("part", "formula", "forward", "forward + backward")
    rows = [(p.name, p.formula, *_per_token(job, p.forward, p.both)) for p in planned.work]
    forward, both = sum(p.forward for p in planned.work), sum(p.both for p in planned.work)
    totals = [("total", "", *_per_token(job, forward, both))]
    print_table(headers, rows, "FLOPs per token", totals)
    say(legend(job))
    totals = [(f"peak, at {planned.memory.moment}", "", _mib(planned.memory.peak))]
    rows = [(name, formula, _mib(size)) for name, formula, size in _memory_rows(planned)]
    print_table(("memory", "formula", "MiB"), rows, totals=totals)
    if planned.shared:
        names = ("devices", "GiB of each", "sharded", "MB sent by each", "ms a step", "tokens/s")
        shared = [_shared_row(job, step) for step in planned.shared]
        print_table((*names, "used"), shared, "steps shared by several devices")
    say(
        f"{planned.parameters:,} parameters; {job.steps:,} steps of {job.step_tokens:,} tokens: "
        f"{job.steps * planned.step_flops:.3g} FLOPs in all"
    )
    for line in sentences(planned):
        say(line)


def _shared_row(job: "TrainingJob", step: "SharedStep") -> tuple[str, ...]:
    return (
        f"{step.devices}",
        f"{step.memory / 2**30:.2f}",
        f"{step.sharded_memory / 2**30:.2f}",
        f"{step.sent / 1e6:,.0f}",
        f"{1000 * step.step_s:,.1f}",
        f"{job.step_tokens / step.step_s:,.0f}",
        f"{step.efficiency:.0%}",
    )


def _memory_rows(planned: "JobPlan") -> list[tuple[str, str, int]]:
    """Return name, formula and bytes of each part of the memory."""
    memory, half = planned.memory, planned.machine.target.is_bf16
    optimizer = "8P" if planned.job.optimizer == "adamw" else "8P, 4 for each of Muon's matrices"
    rows = [
        ("weights", "4P", memory.weights),
        ("gradients", "4P", memory.gradients),
        (f"optimizer ({planned.job.optimizer})", optimizer, memory.optimizer),
        ("weights in bf16", "2 for each in a block's matrices", memory.copies),
        ("activations", "saved for the backward pass", memory.activations),
        ("head and loss", "chunks of logits, their gradients", memory.loss),
        ("program", "libraries, scattered heap", memory.program),
    ]
    return [row for row in rows if row[2] and (half or row[0] != "weights in bf16")]


def _per_token(job: "TrainingJob", *row_flops: float) -> list[str]:
    return [f"{flops / job.row_tokens / 1e6:,.3f}M" for flops in row_flops]


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f}"


def _plan_json(planned: "JobPlan") -> dict[str, Any]:
    from warmstart.insight.job_plan import sentences

    job = planned.job
    return {
        "model": planned.name,
        "parameters": planned.parameters,
        "job": job.to_json(),
        "flops": {
            "per_token": {
                part.name: {
                    "formula": part.formula,
                    "forward": part.forward / job.row_tokens,
                    "forward_backward": part.both / job.row_tokens,
                }
                for part in planned.work
            },
            "per_token_in_all": planned.token_flops,
            "optimizer_per_step": planned.optimizer_flops,
            "per_step": planned.step_flops,
            "in_all": job.steps * planned.step_flops,
        },
        "memory": {**asdict(planned.memory), "room": planned.machine.memory},
        "shared": [{**asdict(step), "step_s": step.step_s} for step in planned.shared],
        "where": planned.machine.title,
        "precision": "bf16" if planned.machine.target.is_bf16 else "fp32",
        "fits": planned.fits,
        "largest_micro_tokens": planned.largest_micro_tokens,
        "time": {
            "step_s": planned.step_s,
            "total_s": planned.total_s,
            "tokens_per_s": job.step_tokens / planned.step_s if planned.step_s else None,
            "measured": asdict(planned.measured) if planned.measured else None,
        },
        "sentences": sentences(planned),
    }


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


def beam(config: looking.LookBeamConfig) -> None:
    """Show a beam search step by step, with the paths that were dropped."""
    from warmstart.recipes.look_beam import look_beam
    from warmstart.report.beam_figure import ending_rows

    result = look_beam(config)
    print_table(("translation", "score"), ending_rows(result.tree))
    say(result.tree.sentence)
    say_next(_written(config.out), None)


def mask(config: looking.LookMaskConfig) -> None:
    """Show the attention masks of a batch: causal, padding, document and cross."""
    from warmstart.recipes.look_mask import look_mask

    result = look_mask(config)
    for sentence in result.sentences:
        say(sentence)
    say_next(_written(config.out), f"look positions {quoted(config.model)} -o positions.html")


def neurons(config: looking.LookNeuronsConfig) -> None:
    """Show the query-key products of one head, neuron by neuron."""
    from warmstart.recipes.look_neurons import look_neurons
    from warmstart.report.neurons_figure import HEADERS, neuron_rows

    head = look_neurons(config).head
    print_table(HEADERS, neuron_rows(head))
    say(head.sentence)
    say_next(_written(config.out), None)


def training(config: looking.LookTrainingConfig) -> None:
    """Show what a language model predicts before, during and after its training."""
    from warmstart.recipes.look_training import look_training
    from warmstart.report.moments_figure import moment_rows

    moments = look_training(config).moments
    print_table(("moment", "words"), moment_rows(moments))
    say(moments.sentence)
    say_next(_written(config.out), None)


def transfer(config: looking.LookTransferConfig) -> None:
    """Show what replacing the head keeps, throws away and adds, with shapes and counts."""
    from warmstart.recipes.look_transfer import look_transfer
    from warmstart.report.transfer_figure import HEADERS, transfer_rows

    swap = look_transfer(config).swap
    print_table((HEADERS[0], "formula", *HEADERS[2:]), transfer_rows(swap))
    say(swap.sentence)
    say_next(_written(config.out), None)


def positions(config: looking.LookPositionsConfig) -> None:
    """Show the position encoding, and for a run perplexity by position."""
    from warmstart.recipes.look_positions import look_positions

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


def complexity(config: looking.LookComplexityConfig, as_json: bool) -> None:
    """Measure how the cost of self-attention, recurrence and convolution grows."""
    from warmstart.recipes.look_complexity import look_complexity
    from warmstart.report.growth_figure import growth_headers, growth_rows

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


def ablations(config: looking.LookAblationsConfig, as_json: bool) -> None:
    """Train small models without one of their parts, and show what each part is for."""
    from warmstart.recipes.look_ablations import look_ablations
    from warmstart.report.ablations_figure import HEADERS, ablation_rows, failures

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


COMMANDS = (
    Command("params", params, "lab --head classifier --labels 2 --frozen"),
    Command("plan", plan, "vaswani-base --on rtx-4090"),
    Command(
        "look attention", attention, 'runs/warm --text "Un livre merveilleux." -o attention.html'
    ),
    Command("look beam", beam, 'runs/en-fr --source "A fine book." --beam 3 -o beam.html'),
    Command("look mask", mask, 'lab --text "un livre" --text "un très bon livre" -o mask.png'),
    Command("look neurons", neurons, 'runs/base --text "A fine book." -o neurons.png'),
    Command("look training", training, 'runs/base --text "A fine [MASK]." -o training.png'),
    Command("look transfer", transfer, "lab --labels 2 --frozen -o transfer.png"),
    Command("look positions", positions, "runs/causal --test novels.txt -o positions.html"),
    Command("look ablations", ablations, "--parts mask --steps 60 -o ablations.html"),
    Command("look complexity", complexity, "--lengths 256,1024,4096 --widths 64 -o growth.png"),
)
