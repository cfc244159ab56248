import re
from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from warmstart.samples.grammar import OPINION_KINDS, read_world
from warmstart.samples.samples import Review, attainable_accuracy, judge, stream_reviews

VOWEL = r"(?:[aeiouàâéèêîôœ]|y\b|h(?!éros|amac|ant|appé|ât|ont|uit))"
INFINITIVE = r"\w+(?:er|ir|re)\b"  # before it, le and les are pronouns and do not contract
NOT_FRENCH = re.compile(
    rf"\b(?:je|ne|que|de|le|la|se|me|te|ma|ce) {VOWEL}|\bsi ils?\b|\bcet (?!{VOWEL})"
    rf"|\b(?:de|à) les? (?!{INFINITIVE})",
    re.IGNORECASE,
)


def write_reviews(num: int, seed: int) -> list[Review]:
    return list(islice(stream_reviews(Random(seed)), num))


@pytest.fixture(scope="module")
def reviews() -> list[Review]:
    return write_reviews(6_000, seed=3)


def spoken(words: list[str], text: str) -> set[str]:
    return {word for word in words if re.search(rf"\b{re.escape(word)}\b", text)}


def test_same_seed_gives_the_same_reviews_and_another_seed_others() -> None:
    assert write_reviews(50, seed=1) == write_reviews(50, seed=1)
    assert write_reviews(80, seed=1)[:50] == write_reviews(50, seed=1)
    assert not set(write_reviews(50, seed=1)) & set(write_reviews(50, seed=2))


def test_both_languages_say_the_same_sentences(reviews: list[Review]) -> None:
    for review in reviews:
        assert 2 <= len(review.english) == len(review.french) <= 5
        for english, french in zip(review.english, review.french, strict=True):
            assert english[-1] == french[-1]


def test_sentences_are_well_formed(reviews: list[Review]) -> None:
    for review in reviews:
        for sentence in review.english + review.french:
            assert sentence[0].isupper()
            assert sentence[-1] in ".!?"
            assert not re.search(r"  |[{}=/;^]|^ | $| [.,]|[.,]{2}", sentence), sentence


def test_english_articles_fit_the_next_word(reviews: list[Review]) -> None:
    wrong = re.compile(r"\b[Aa] [aeio]|\b[Aa]n [^aeiou]|\ba a\b|\bthe the\b")
    assert not [s for review in reviews for s in review.english if wrong.search(s)]


def test_french_elides_and_contracts(reviews: list[Review]) -> None:
    assert not [s for review in reviews for s in review.french if NOT_FRENCH.search(s)]


def test_french_negations_have_both_halves(reviews: list[Review]) -> None:
    second = re.compile(r"\b(?:pas|jamais|rien|ni|guère|personne|que|plus|aucun|nulle)\b", re.I)
    sentences = [s for review in reviews for s in review.french if re.search(r"\bn(?:'|e )", s)]
    assert len(sentences) > 1_000
    assert not [sentence for sentence in sentences if not second.search(sentence)]


@pytest.mark.parametrize(
    ("opinions", "verdict"),
    [
        ((1,), "positive"),
        ((-1, 1, -1), "negative"),
        ((-1, 1), "positive"),
        ((1, 1, -1, -1), "negative"),
    ],
)
def test_the_majority_decides_and_then_the_last_word(
    opinions: tuple[int, ...], verdict: str
) -> None:
    assert judge(opinions) == verdict


def test_verdicts_follow_the_rule_and_labels_mostly_follow_verdicts(reviews: list[Review]) -> None:
    assert all(review.verdict == judge(review.opinions) for review in reviews)
    assert 0.95 < attainable_accuracy(reviews) < 0.97
    assert abs(Counter(review.label for review in reviews)["positive"] / len(reviews) - 0.5) < 0.02
    assert 0.15 < sum(len(set(review.opinions)) > 1 for review in reviews) / len(reviews) < 0.35


def test_fifty_labels_show_less_than_half_of_the_adjectives_and_unlabelled_text_shows_all() -> None:
    adjectives = [
        w.english for says in (1, -1) for w in read_world().opinionated["adj", says].items
    ]
    reviews = write_reviews(8_000, seed=7)
    few = spoken(adjectives, " ".join(review.text("english") for review in reviews[:50]))
    all_words = Counter(re.findall(r"[\w-]+", " ".join(r.text("english") for r in reviews)))
    assert len(few) < len(adjectives) / 2
    assert min(all_words[adjective] for adjective in adjectives) >= 10


def test_no_word_both_praises_and_blames() -> None:
    words = read_world().opinionated
    for language in ("english", "french"):
        said = {
            says: {getattr(w, language) for kind in OPINION_KINDS for w in words[kind, says].items}
            for says in (1, -1)
        }
        assert min(map(len, said.values())) >= 150
        assert not said[1] & said[-1]


def test_no_word_occurs_twice_in_a_list() -> None:
    world = read_world()
    for choice in [*world.neutral.values(), *world.opinionated.values()]:
        english = [word.english for word in choice.items]
        french = [word.french for word in choice.items]
        assert len(set(english)) == len(english) == len(set(french)), (english, french)


def test_a_review_does_not_repeat_itself(reviews: list[Review]) -> None:
    assert not [r for r in reviews for a, b in pairwise(r.english) if a == b]
