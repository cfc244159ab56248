"""Compare what `plan` predicts with what is measured: peak memory and time of three presets.

Each preset is planned from closed forms and a short measurement. Then whole steps of the planned
size run longer, in a process of their own. Prints both, and the ratios. On a CPU that other
programs use too, repeat it before drawing conclusions.
"""

import argparse

import torch

from warmstart.planning.devices import known_devices, step_seconds, target_on
from warmstart.planning.memory import step_memory
from warmstart.planning.plan import plan
from warmstart.planning.timing import time_steps
from warmstart.settings.shared import Machine

# Tokens of an optimizer step and of a forward pass.
SIZES = {
    "cpu": {"lab": (4096, 2048), "vaswani-base": (2048, 2048), "modern-small": (2048, 2048)},
    "cuda": {
        "lab": (32_768, 16_384),
        "vaswani-base": (49_152, 16_384),
        "modern-small": (65_536, 16_384),
    },
}
# Other presets are planned as the command that trains them by default.
OBJECTIVES = {"lab": {"objective": "causal"}, "modern-small": {"objective": "causal"}}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=SIZES, default="cpu")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the short measurement")
    parser.add_argument("--run-seconds", type=float, default=20.0, help="of the longer run")
    parser.add_argument("--on", choices=known_devices(), help="also predict the time by the table")
    parser.add_argument("--only", choices=SIZES["cpu"])
    options = parser.parse_args()
    print(f"{options.device}, torch {torch.__version__}, {options.precision}; MiB and ms a step\n")
    print("| preset | tokens | peak planned | measured | ratio | time planned | measured | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (tokens, micro) in SIZES[options.device].items():
        if options.only in (None, name):
            print(row(name, tokens, micro, options), flush=True)


def row(name: str, tokens: int, micro_tokens: int, options: argparse.Namespace) -> str:
    """Return one line of the table."""
    machine = Machine(device=options.device, precision=options.precision)
    planned = plan(
        name,
        batch_tokens=tokens,
        micro_tokens=micro_tokens,
        device=machine.device,
        precision=machine.precision,
        seconds=options.seconds,
        **OBJECTIVES.get(name, {}),
    )
    measured = time_steps(planned.job, machine, options.run_seconds)
    job, memory = planned.job, planned.memory
    assert planned.step_s is not None
    seconds = measured.step_s(job)
    cells = [
        f"{job.rows}×{job.row_tokens}",
        *(f"{size / 2**20:,.0f}" for size in (memory.peak, measured.peak_bytes)),
        f"{memory.peak / measured.peak_bytes:.2f}",
        *(f"{1000 * time:,.1f}" for time in (planned.step_s, seconds)),
        f"{planned.step_s / seconds:.2f}",
    ]
    line = f"| `{name}` | {' | '.join(cells)} |"
    parts = {k: v >> 20 for k, v in vars(memory).items() if isinstance(v, int)}
    notes = [f"\n  MiB by part: {parts}, at {memory.moment}"]
    if planned.measured:
        predicted = step_memory(job, planned.machine.target, planned.measured.rows).peak
        notes.append(
            f"\n  short measurement: {planned.measured.rows} rows, "
            f"{planned.measured.peak_bytes >> 20:,} MiB where {predicted >> 20:,} are predicted; "
            f"{planned.measured.baseline_bytes >> 20:,} before"
        )
    if options.on:
        device = known_devices()[options.on]
        table = step_seconds(job, device, target_on(device, machine.precision))
        notes.append(f"\n  by the table: {1000 * table:,.1f} ms, ratio {table / seconds:.2f}")
    return line + "".join(notes)


if __name__ == "__main__":
    main()
