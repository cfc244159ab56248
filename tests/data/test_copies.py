"""Copies and near-copies of texts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data import fingerprints as shingles
from warmstart.data.copies import (
    Matches,
    NamedTexts,
    NearCopy,
    find_matches,
    find_repeats,
    find_shared,
)
from warmstart.data.fingerprints import FingerprintWriter, fingerprints_of

few_texts = st.lists(st.sampled_from(["a", "b", "c", "d e", "é"]), max_size=12)


def random_text(seed: int, num_words: int = 120) -> str:
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 8))) for _ in range(num_words)]
    return " ".join(words)


def with_changes(text: str, every: int) -> str:
    return " ".join("new" if n % every == 3 else w for n, w in enumerate(text.split()))


def matches_of(texts: list[str], known: list[str]) -> Matches:
    return find_matches(fingerprints_of(texts), fingerprints_of(known))


@given(few_texts, few_texts, few_texts)
def test_shared_texts_are_counted_for_every_pair(a: list[str], b: list[str], c: list[str]) -> None:
    files = {"a": a, "b": b, "c": c}
    named = [NamedTexts(name, fingerprints_of(t), t.__getitem__) for name, t in files.items()]
    for shared in find_shared(named):
        first, second = files[shared.a], files[shared.b]
        common = [text for text in second if text in first]
        assert (shared.distinct, shared.rows, shared.near) == (len(set(common)), len(common), 0)
        assert shared.copy == (common[0] if common else None)
    assert [(shared.a, shared.b) for shared in find_shared(named)] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    assert find_repeats(fingerprints_of(a)).copies.sum() == len(a) - len(set(a))


@pytest.mark.parametrize(
    ("text", "is_near"),
    [
        (with_changes(random_text(1), 20), True),
        (with_changes(random_text(1), 4), False),
        (random_text(1)[150:500], True),  # a part
        (f"{random_text(8, 30)} {random_text(1)} {random_text(9, 30)}", True),  # a quotation
        (random_text(7), False),
        (with_changes("a short text of seven words", 20), False),
    ],
)
def test_near_copies_share_most_of_their_windows(text: str, is_near: bool) -> None:
    known = [random_text(seed) for seed in range(5)] + ["a short text of seven words"]
    matches = matches_of([text, known[2]], known)
    assert matches.near.tolist() == [is_near, False]  # a copy is no near-copy
    assert matches.copies.tolist() == [False, True]


def test_a_near_copy_is_shown_beside_its_original() -> None:
    known = [random_text(seed) for seed in range(5)]
    texts = [random_text(6), with_changes(known[3], 25)]
    files = {"a": known, "b": texts}
    named = [NamedTexts(name, fingerprints_of(t), t.__getitem__) for name, t in files.items()]
    (shared,) = find_shared(named)
    assert (shared.rows, shared.near, shared.copy) == (0, 1, None)
    assert shared.near_copy == NearCopy(text=f"{texts[1][:120]}…", original=f"{known[3][:120]}…")


def test_near_repeats_are_later_rows() -> None:
    text = random_text(1)
    repeats = find_repeats(fingerprints_of([random_text(2), text, with_changes(text, 20), text]))
    assert repeats.near.tolist() == [False, False, True, False]
    assert repeats.copies.tolist() == [False, False, False, True]


def test_a_text_over_two_paragraphs_is_near_a_document_that_contains_it() -> None:
    words = random_text(1).split()
    writer = FingerprintWriter()
    writer.add([" ".join(words[:60]), " ".join(words[60:])])
    matches = find_matches(fingerprints_of([" ".join(words[30:90])]), writer.finish())
    assert matches.near.tolist() == [True]


def test_thinner_samples_find_long_near_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "WINDOW_CAPACITY", 5000)
    known = [random_text(seed, 400) for seed in range(60)]  # 130,000 windows
    fingerprints = fingerprints_of(known)
    assert fingerprints.shingles.halvings >= 4
    texts = [with_changes(known[seed], 25) for seed in range(30)]
    texts += [random_text(seed, 400) for seed in range(100, 130)]
    near = find_matches(fingerprints_of(texts), fingerprints).near
    assert near[:30].sum() >= 28
    assert not near[30:].any()
