import base64
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data import overlap
from warmstart.data.overlap import (
    Fingerprints,
    count_repeats,
    find_shared,
    fingerprint,
    fingerprints_of,
)
from warmstart.errors import WarmstartError
from warmstart.results.data import SharedTexts

few_texts = st.lists(st.sampled_from(["a", "b", "c", "d e", "é"]), max_size=12)


def test_fingerprint_is_stable_and_64_bits() -> None:
    assert fingerprint("Un  livre\n") == fingerprint(" un livre") < 2**64
    assert fingerprint("ﬁn") == fingerprint("FIN")
    assert fingerprint("e\u0301té") == fingerprint("été")
    assert fingerprint("a b") != fingerprint("ab")
    assert fingerprint("un livre") == int.from_bytes(bytes.fromhex("6795dac38ac104cd"))


@given(few_texts, few_texts)
def test_set_behaves_like_a_set(added: list[str], asked: list[str]) -> None:
    seen = Fingerprints()
    for text in added:
        seen.add(text)
    assert len(seen) == len(set(added))
    assert [text in seen for text in asked] == [text in added for text in asked]
    assert seen.contain(fingerprints_of(asked)).tolist() == [text in added for text in asked]


@given(few_texts, few_texts)
def test_text_form_keeps_the_set(added: list[str], later: list[str]) -> None:
    seen = Fingerprints()
    for text in added:
        seen.add(text)
    packed = seen.to_text()
    assert len(base64.b64decode(packed)) == 6 * len(set(added))
    again = Fingerprints.from_text(packed)
    assert again.to_text() == packed
    for text in later:
        again.add(text)
    assert len(again) == len({*added, *later})


def test_settling_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "SORTED_CHUNK", 7)
    rng = random.Random(0)
    texts = [str(rng.randrange(300)) for _ in range(2000)]
    seen = Fingerprints()
    for text in texts:
        seen.add(text)
    assert len(seen) == len(set(texts))
    assert seen.contain(fingerprints_of(texts)).all()
    assert not seen.contain(fingerprints_of([str(i) for i in range(300, 400)])).any()


@pytest.mark.parametrize("text", ["abc", "é", "QUJD", "!!!!"])
def test_damaged_text_form(text: str) -> None:
    with pytest.raises(WarmstartError, match=r"fingerprints: .* is not base64"):
        Fingerprints.from_text(text)


@given(few_texts, few_texts, few_texts)
def test_shared_equals_counting(a: list[str], b: list[str], c: list[str]) -> None:
    files = {"a": a, "b": b, "c": c}
    expected = [
        SharedTexts(x, y, len(set(files[x]) & set(files[y])), sum(t in files[x] for t in files[y]))
        for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    assert find_shared({name: fingerprints_of(texts) for name, texts in files.items()}) == expected
    assert count_repeats([fingerprint(text) for text in a]) == len(a) - len(set(a))


def test_plain_integers_do_as_well() -> None:
    high = 2**64 - 1
    assert find_shared({"a": [high, 1], "b": [high, high, 2]}) == [SharedTexts("a", "b", 1, 2)]
    assert count_repeats(np.array([], np.uint64)) == 0
