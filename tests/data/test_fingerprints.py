import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data import fingerprints as shingles
from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import (
    FingerprintWriter,
    PackedFingerprints,
    fingerprint,
    fingerprints_of,
    join_fingerprints,
    normalise,
)
from warmstart.errors import WarmstartError

few_texts = st.lists(st.sampled_from(["a", "b", "c", "d e", "é"]), max_size=12)


def test_fingerprints_are_stable_and_48_bits() -> None:
    assert fingerprint("Un  livre\n") == fingerprint(" un livre") < 2**48
    assert fingerprint("un livre") == 217_536_059_560_992


@pytest.mark.parametrize(
    "copy",
    [
        "IT'S  a “good” film - Tom & Jerry!",
        "It’s a «good» film – Tom &amp; Jerry.",
        "It&#39;s a &quot;good&quot; film — Tom & Jerry",
        "It's a <b>good</b> film.<br /><br />Tom & Jerry…",
        "It's a &lt;i&gt;good&lt;/i&gt; film\n\nTom & Jerry",
        "It's a good ﬁlm, Tom\u00a0& Jerry",
    ],
)
def test_markup_punctuation_case_and_spacing_do_not_matter(copy: str) -> None:
    assert fingerprint(copy) == fingerprint('It\'s a "good" film. Tom & Jerry')


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a b", "ab"),
        ("a good film", "a bad film"),
        ("!!!", "???"),  # punctuation alone is the text
        ("👍", "👎"),
        ("हिंदी", "हद"),  # vowel signs are no punctuation
        ("5 < 6", "5 < 7"),
    ],
)
def test_other_texts_differ(first: str, second: str) -> None:
    assert fingerprint(first) != fingerprint(second)


@given(st.text())
def test_any_text_is_normalised_once_for_all(text: str) -> None:
    assert fingerprint(text) < 2**48
    assert normalise(f" {text}\n") == normalise(text)


def test_absurd_character_numbers_are_ordinary_text() -> None:
    assert fingerprint(f"&#{'9' * 5000};") != fingerprint("a")


@given(few_texts, few_texts)
def test_sets_behave_like_sets(added: list[str], asked: list[str]) -> None:
    known = PackedFingerprints(**fingerprints_of(added).to_json()).unpack()
    assert len(known) == len(set(added))
    matches = find_matches(fingerprints_of(asked), known)
    assert matches.copies.tolist() == [text in added for text in asked]


@given(few_texts, few_texts)
def test_a_union_is_the_set_of_all_texts(first: list[str], second: list[str]) -> None:
    union = join_fingerprints([fingerprints_of(first), fingerprints_of(second)])
    assert union.to_json() == fingerprints_of(first + second).to_json()


@pytest.mark.parametrize("text", ["abc", "é", "QUJD", "!!!!"])
@pytest.mark.parametrize("key", ["texts", "shingles"])
def test_damaged_sets_are_refused(text: str, key: str) -> None:
    damaged = {**fingerprints_of(["a"]).to_json(), key: text}
    with pytest.raises(WarmstartError, match="fingerprints cannot be read"):
        PackedFingerprints(**damaged).unpack()


@pytest.mark.parametrize("halvings", [-1, 49])
def test_impossible_samples_are_refused(halvings: int) -> None:
    damaged = {**fingerprints_of(["a"]).to_json(), "halvings": halvings}
    with pytest.raises(WarmstartError, match=f"halvings={halvings}"):
        PackedFingerprints(**damaged).unpack()


def test_documents_are_known_whole_and_by_paragraph() -> None:
    writer = FingerprintWriter()
    writer.add(["one", "two"])
    writer.add(["three", "four"])
    writer.add(["five"], continues=True)  # the document was too long for one passage
    known = writer.finish()
    asked = ["one", "One.\nTwo.", "three four five", "two three", "three four"]
    matches = find_matches(fingerprints_of(asked), known)
    assert matches.copies.tolist() == [True, True, True, False, False]


def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "WINDOW_CAPACITY", 1000)
    rng = random.Random(0)
    texts = [" ".join(f"{rng.random():.9f}" for _ in range(30)) for _ in range(400)]
    tracemalloc.start()
    known = fingerprints_of(texts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 400 <= len(known.shingles.codes) <= 1000
    assert known.shingles.halvings >= 6
    assert peak < 4_000_000
    assert (known.shingles.codes < np.uint64(2 ** (48 - known.shingles.halvings))).all()
