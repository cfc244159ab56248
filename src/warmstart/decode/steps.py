"""From a translator to the step function that a search sees, and whole searches with it.

Knows nothing about how the next token is chosen.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from warmstart.batches.pairs import padded
from warmstart.decode.beam import Beam, Hypothesis, beam_search
from warmstart.decode.sample import Step
from warmstart.model.cache import Cache, Memory
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Translator


def translator_step(model: Translator, memory: Memory, width: int, runtime: Runtime) -> Step:
    """Return a step function that computes each position once and reads the source once."""
    cache = Cache(model.config.decoder_depth)
    num_rows = 0

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        nonlocal memory, num_rows
        if cache.length and not torch.equal(parents, torch.arange(num_rows)):
            cache.select(parents.to(runtime.device))
            if len(parents) < num_rows:  # a source has left
                memory = memory.select((parents[::width] // width).to(runtime.device))
        num_rows = len(parents)
        new = prefixes[:, cache.length :].to(runtime.device)
        with runtime.precision():
            hidden = model.hidden(new, memory, cache)[:, -1]
            logits = model.head(hidden, model.embedding)
        return logits.to(model.embedding.dtype).log_softmax(-1)

    return step


@torch.inference_mode()
def translate_ids(
    model: Translator,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    marks: tuple[int, int, int],
    beam: Beam,
    forbidden: Sequence[int],
    runtime: Runtime,
) -> list[list[Hypothesis]]:
    """Translate one batch; `marks` are the source's pad and the target's bos and eos."""
    pad, bos, eos = marks
    ids, is_token = padded(sources, pad)
    has_padding = not bool(is_token.all())
    with runtime.precision():
        memory = model.remember(
            ids.to(runtime.device), is_token.to(runtime.device) if has_padding else None
        )
    step = translator_step(model, memory, beam.width, runtime)
    return beam_search(step, limits, bos, eos, beam, forbidden)
