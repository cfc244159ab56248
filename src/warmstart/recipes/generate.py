"""A causal language model and a prompt -> texts."""

from collections.abc import Iterator
from pathlib import Path

from warmstart.decoding.sample import Sampling
from warmstart.files import write_lines
from warmstart.loading import load_on
from warmstart.settings.using import GenerateConfig

TOGETHER = 32  # texts, each of which keeps its keys and values in memory


def generate(config: GenerateConfig) -> list[str]:
    """Write texts with a causal language model."""
    texts = list(generate_texts(config))
    if config.out:
        write_lines(Path(config.out), texts)
    return texts


def generate_texts(config: GenerateConfig) -> Iterator[str]:
    """Yield as many texts as asked for, each from its own seed.

    In half precision it also matters how many are written together: kernels round differently.
    """
    model = load_on(config.run, config)
    sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
    seeds = range(config.seed, config.seed + config.num)
    for start in range(0, config.num, TOGETHER):
        yield from model.generate_texts(
            config.prompt,
            config.max_tokens,
            sampling=sampling,
            seeds=seeds[start : start + TOGETHER],
        )
