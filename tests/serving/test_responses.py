"""A text ends before a stop string, wherever its pieces are cut."""

import asyncio
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from warmstart.serving.responses import read_whole, stop_before
from warmstart.tasks.text_model import GeneratedPiece

letters = st.text("ab", max_size=6)


async def pieces_of(texts: list[str]) -> AsyncGenerator[GeneratedPiece, None]:
    for text in texts:
        yield GeneratedPiece(text)
    yield GeneratedPiece("", "length")


@given(st.lists(letters, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_nothing_of_a_stop_string_is_sent(texts: list[str], stops: list[str]) -> None:
    found, _ = asyncio.run(read_whole(stop_before(pieces_of(texts), stops)))
    text = "".join(texts)
    ends = [text.index(stop) for stop in stops if stop in text]
    # The first stop string to be complete ends the text, even if another began before it.
    assert found.end == ("stop" if ends else "length")
    assert text.startswith(found.text)
    assert not any(stop in found.text for stop in stops)
    if not ends:
        assert found.text == text
