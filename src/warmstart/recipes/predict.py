"""Files and prompts through a trained model.

Knows nothing about training; streams, a line in and a line out.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from warmstart.config.jobs import GenerateConfig, PredictConfig
from warmstart.decode.sample import Sampling
from warmstart.errors import WarmstartError
from warmstart.predictor import Prediction, load
from warmstart.text.corpus import read_texts
from warmstart.text.pieces import join_pieces

CHUNK = 1024  # texts sorted by length and labelled together


def predict_file(config: PredictConfig, standard_input: BinaryIO) -> Iterator[Prediction]:
    """Yield a prediction for every text, in order."""
    predictor = load(config.run, config.device, config.precision, config.threads)
    if predictor.tokenizer.kind == "pieces" and not config.pieces:
        raise WarmstartError(
            f"{config.run} reads a vocabulary of pieces, which cannot split text; "
            "add --pieces if the text is split already"
        )
    if config.file is not None and not Path(config.file).is_file():
        raise WarmstartError(f"{config.file}: no such file")
    source = standard_input if config.file is None else Path(config.file)
    texts = read_texts(source, config.columns)
    is_joined = config.pieces and predictor.tokenizer.kind != "pieces"
    while chunk := list(islice(texts, CHUNK)):
        yield from predictor.predict([join_pieces(t) for t in chunk] if is_joined else chunk)


def generate_texts(config: GenerateConfig) -> Iterator[str]:
    """Yield as many texts as asked for, each from a seed of its own."""
    predictor = load(config.run, config.device, config.precision, config.threads)
    sampling = Sampling(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
    for number in range(config.num):
        yield predictor.generate(config.prompt, config.max_tokens, sampling, config.seed + number)
