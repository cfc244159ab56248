"""Count instructions, which no other program changes: of `--help`, and of one decoding step.

`warmstart --help` is counted beside importing the libraries that print it, a decoding step beside
its matrix products alone. A step is the difference of two translations of different length, so
that what a process does before it is left out. Needs valgrind, which knows no AVX-512: products
are those in fp32. Counts run beside each other, as they can.

    python benchmarks/instructions.py
"""

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from measuring import Ratio, add_json_option, count_instructions, report

LENGTHS = (8, 40)  # tokens of the shorter and the longer translation
HELP = ["-m", "warmstart", "--help"]
PEER = ["-c", "import typer, rich"]


def main() -> None:
    """Count both, or be the process that is counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beams", type=int, nargs="*", default=[1])
    parser.add_argument("--decode", type=int, nargs=2, metavar=("BEAM", "TOKENS"))
    parser.add_argument("--products", type=int, nargs=2, metavar=("BEAM", "TOKENS"))
    add_json_option(parser)
    given = parser.parse_args()
    if given.decode:
        decode(*given.decode)
    elif given.products:
        multiply(*given.products)
    else:
        report([of_help(), *(of_a_step(beam) for beam in given.beams)], given.json)


def of_help() -> Ratio:
    """Return the instructions of the help, beside those of importing what prints it."""
    return _ratio("warmstart --help", "import typer, rich", *_count([HELP, PEER]))


def of_a_step(beam: int) -> Ratio:
    """Return the instructions of a step for one sentence, beside those of its products."""
    counted = _count(
        [
            [__file__, option, str(beam), str(length)]
            for option in ("--decode", "--products")
            for length in LENGTHS
        ]
    )
    steps = LENGTHS[1] - LENGTHS[0]
    ours, theirs = (counted[1] - counted[0]) // steps, (counted[3] - counted[2]) // steps
    return _ratio(f"a step of translation, beam {beam}", "its products alone", ours, theirs)


def _count(commands: Sequence[Sequence[str]]) -> list[int]:
    """Return the instructions of each command; how busy the cores are does not matter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(count_instructions, commands))


def _ratio(work: str, peer: str, ours: int, theirs: int) -> Ratio:
    rounds = [(ours / 1e6, theirs / 1e6)]
    return Ratio.of(work, "million instructions", peer, rounds, is_less_better=True)


def decode(beam: int, length: int) -> None:
    """Translate a sentence of 16 tokens by `length` tokens."""
    import translation

    translation.LENGTH = length
    translation.ours()([[*range(5, 20), translation.EOS]], beam)


def multiply(beam: int, length: int) -> None:
    """Multiply by every matrix of a decoder, once for each token."""
    import torch
    from translation import build

    from warmstart.decoding.packed import PackedDecoder
    from warmstart.kernels.inference import PackedLinear

    decoder = PackedDecoder(build(), torch.float32, PackedLinear)
    products: list[Callable[[torch.Tensor], torch.Tensor]] = [decoder.head.product]
    for block in decoder.blocks:
        products += [block.project.product, block.output.product]
        products += [block.inner.product]
    narrow = torch.zeros(beam, decoder.config.width)
    wide = torch.zeros(beam, decoder.config.ffn_width)
    with torch.inference_mode():
        for _ in range(length):
            for product in products:
                product(narrow)
            for block in decoder.blocks:
                block.outer.product(wide)


if __name__ == "__main__":
    main()
