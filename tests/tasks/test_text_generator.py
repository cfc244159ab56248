"""Streamed text is the generated text, piece by piece."""

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import warmstart
from warmstart.settings.using import Sampling
from warmstart.tasks.causal import TextGenerator


@pytest.fixture(scope="module")
def generator(base: Path) -> TextGenerator:
    loaded = warmstart.load(base, threads=1)
    assert isinstance(loaded, TextGenerator)
    return loaded


@pytest.mark.parametrize("prompt", ["", "This book", "Été 漢"])
@pytest.mark.parametrize("max_tokens", [1, 5, 99])
@pytest.mark.parametrize("temperature", [0.0, 2.0])  # random bytes: parts of characters
def test_pieces_join_to_the_text(
    prompt: str, max_tokens: int, temperature: float, generator: TextGenerator
) -> None:
    sampling = Sampling(temperature=temperature)
    for seed in range(5):
        pieces = list(generator.stream(prompt, max_tokens, sampling, seed))
        whole = generator.generate(prompt, max_tokens, temperature=temperature, seed=seed)
        assert prompt + "".join(piece.text for piece in pieces) == whole
        assert [piece.end for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        room = generator.config.max_length - 1 - len(generator.tokenizer.encode([prompt])[0])
        is_full = len(pieces) - 1 == min(max_tokens, room)
        assert pieces[-1].end == ("length" if is_full else "stop")


def test_every_keyword_has_an_effect(generator: TextGenerator) -> None:
    def texts(**sampling: Any) -> list[str]:
        return [generator.generate("A", 8, seed=seed, **sampling) for seed in range(4)]

    greedy, hot = texts(), texts(temperature=5.0)
    assert len(set(greedy)) == 1
    assert len(set(hot)) == 4
    assert texts(temperature=5.0, top_k=1) == texts(temperature=5.0, top_p=1e-6) == greedy
    assert texts(temperature=5.0, top_k=3) != hot


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"temprature": 1.0}, "generate has no setting 'temprature'; did you mean 'temperature'?"),
        ({"beams": 9}, "generate has no setting 'beams'; known: max_tokens, prompt, seed"),
        ({"temperature": -1.0}, "temperature -1.0 is not allowed"),
        ({"top_p": 1.5}, "top-p 1.5 is not allowed"),
    ],
)
def test_no_keyword_is_swallowed(
    keywords: dict[str, Any], said: str, generator: TextGenerator
) -> None:
    with pytest.raises(warmstart.WarmstartError, match=re.escape(said)):
        generator.generate("The", **keywords)
    with pytest.raises(warmstart.WarmstartError, match="embed has no setting 'pool'; did you mean"):
        generator.embed(["The"], pool="cls")  # type: ignore[call-arg]


def test_streams_may_be_advanced_in_turns(generator: TextGenerator) -> None:
    sampling = Sampling(temperature=1.0)
    alone = [list(generator.stream("A", 8, sampling, seed)) for seed in (1, 2)]
    turns = zip_longest(*(generator.stream("A", 8, sampling, seed) for seed in (1, 2)))
    assert list(turns) == list(zip_longest(*alone))


def test_a_prompt_without_room_is_refused(generator: TextGenerator) -> None:
    with pytest.raises(warmstart.WarmstartError, match="this model reads 16"):
        next(generator.stream("word " * 40, 5, Sampling(), 0))


def test_abilities_are_what_is_not_refused(generator: TextGenerator) -> None:
    assert generator.abilities == ("embed", "attention", "generate")
