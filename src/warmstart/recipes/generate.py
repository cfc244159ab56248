"""A causal language model and a prompt -> texts."""

from collections.abc import Iterator
from pathlib import Path

from warmstart.decoding.sample import Sampling
from warmstart.files import write_lines
from warmstart.loading import load_on
from warmstart.settings.using import GenerateConfig


def generate(config: GenerateConfig) -> list[str]:
    """Write texts with a causal language model."""
    texts = list(generate_texts(config))
    if config.out:
        write_lines(Path(config.out), texts)
    return texts


def generate_texts(config: GenerateConfig) -> Iterator[str]:
    """Yield as many texts as asked for, each from its own seed."""
    model = load_on(config.run, config)
    sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
    for number in range(config.num):
        yield model.generate(
            config.prompt, config.max_tokens, sampling=sampling, seed=config.seed + number
        )
