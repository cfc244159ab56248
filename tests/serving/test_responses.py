"""A text ends before a stop string, wherever its pieces are cut."""

from hypothesis import given
from hypothesis import strategies as st

from warmstart.serving.responses import stop_before
from warmstart.tasks.text_model import GeneratedPiece

letters = st.text("ab", max_size=6)


def pieces_of(texts: list[str]) -> list[GeneratedPiece]:
    return [*map(GeneratedPiece, texts), GeneratedPiece("", "length")]


@given(st.lists(letters, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_nothing_of_a_stop_string_is_sent(texts: list[str], stops: list[str]) -> None:
    sent = list(stop_before(pieces_of(texts), stops))
    found, text = "".join(piece.text for piece in sent), "".join(texts)
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    # The first stop string to be complete ends the text, even if another began before it.
    assert sent[-1].end == ("stop" if ends else "length")
    if ends:
        longest = max(len(stop) for stop in stops if text[: min(ends)].endswith(stop))
        assert found == text[: min(ends) - longest]
    else:
        assert found == text


def test_a_text_is_sent_as_soon_as_it_cannot_be_a_stop_string() -> None:
    sent = stop_before(pieces_of(["ab", "aa", "x", "ab"]), ["abac"])
    assert [piece.text for piece in sent] == ["", "aba", "ax", "", "ab"]
