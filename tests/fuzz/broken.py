"""Files as accidents make them: pieces of the format in any order, and whole files with damage."""

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# How many cases each fuzzer tries: few in the suite, many in `make fuzz`.
fuzzed = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    print_blob=True,
)

# What parsers stumble over, whatever they parse.
_CRUMBS = [b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\n\n", b" ", b"\t"]
_CRUMBS += [b",", b'"', b'""', b"'", b"{", b"}", b"[", b"]", b":", b"=", b"\\", b"\\ud800", b"#"]
_CRUMBS += [b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 30, b"{}" * 9]
_CRUMBS += [b"text", b"label", b"source", b"target", b"translation", b"\xf0\x9f\x98\x80", b"[" * 99]


def scraps(*own: bytes) -> st.SearchStrategy[bytes]:
    """Return contents made of a format's own pieces, of crumbs and of noise."""
    piece = st.one_of(
        st.sampled_from([*own, *_CRUMBS]), st.binary(max_size=6), st.text(max_size=6).map(_encode)
    )
    return st.lists(piece, max_size=30).map(b"".join)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def damaged(whole: bytes | Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a whole file that was cut, overwritten, repeated or had something put in."""
    wholes = [whole] if isinstance(whole, bytes) else list(whole)
    return st.sampled_from(wholes).flatmap(_damaged)


def _damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    place = st.integers(0, max(0, len(whole) - 1))
    put = st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(_CRUMBS))
    edits = st.lists(st.tuples(place, place, put), min_size=1, max_size=4)
    return edits.map(lambda made: _edited(whole, made))


def _edited(whole: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    content = whole
    for start, stop, put in edits:
        if start == stop:
            content = content[:start]  # cut off
        elif start < stop and stop - start < 9:
            content = content[:start] + put + content[stop:]  # replaced by another length
        elif start < stop:
            content = content[:start] + put + content[start + len(put) :]  # overwritten
        else:
            content = content[:stop] + put + content[stop:]  # put in
    return content
