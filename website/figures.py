"""Draw the figures of the documents that no command draws: `website/figures.py docs/figures`."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from warmstart.decoding.beam import SpecialIds
from warmstart.look.beam import BeamTree, Vocabulary, watch_search
from warmstart.report.style import save_image
from warmstart.settings.using import Beam

# The table that lab 2 searches by hand: token 0 begins, 1 and 2 are words, 3 ends.
NAMES = ("(start)", "a", "b", ".")
NEXT = ((0.5, 0.4, 0.1), (0.3, 0.3, 0.4), (0.05, 0.05, 0.9))  # a, b, . after each of the others


def beam_by_hand(width: int = 2) -> BeamTree:
    """Search the table with warmstart's own beam search."""

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        return torch.tensor([[0.0, *NEXT[prefix[-1]]] for prefix in prefixes.tolist()]).log()

    vocabulary = Vocabulary(lambda ids: "".join(NAMES[token] for token in ids), NAMES.__getitem__)
    beam = Beam(beam=width, length_penalty=0.0)
    return watch_search(step, 4, SpecialIds(0, 3), beam, 1, vocabulary, "the table by hand")


if __name__ == "__main__":
    save_image(beam_by_hand().draw(), Path(sys.argv[1]) / "lab-beam.png")
