"""The built-in reviews and the files that hold them."""

import re
from collections import Counter
from itertools import combinations, islice, pairwise
from pathlib import Path
from random import Random

import pytest

import warmstart
from command_line import succeed
from warmstart.errors import WarmstartError
from warmstart.samples.samples import (
    Review,
    SampleFiles,
    SampleSizes,
    attainable_accuracy,
    judge,
    stream_reviews,
    write_samples,
)
from warmstart.samples.world import OPINION_KINDS, read_world

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


SIZES = SampleSizes(
    unlabelled=1_500, train=200, valid=100, test=300, train_pairs=900, valid_pairs=80, test_pairs=70
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_samples(tmp_path_factory.mktemp("samples"), seed=4, sizes=SIZES)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def labelled(path: Path) -> list[list[str]]:
    header, *rows = (line.split("\t") for line in lines(path))
    assert header == ["label", "text"]
    return rows


def test_files_have_the_sizes_asked_for(files: SampleFiles) -> None:
    assert len(lines(files.unlabelled)) == SIZES.unlabelled
    splits = (files.train, files.valid, files.test)
    assert [len(labelled(path)) for path in splits] == [200, 100, 300]
    for pair, num in zip(
        (files.train_pairs, files.valid_pairs, files.test_pairs), (900, 80, 70), strict=True
    ):
        assert len(lines(pair.english)) == len(lines(pair.french)) == num


def test_no_review_stands_twice(files: SampleFiles) -> None:
    texts = [text for path in (files.train, files.valid, files.test) for _, text in labelled(path)]
    texts += lines(files.unlabelled)
    assert len(set(texts)) == len(texts)


def test_no_sentence_stands_in_two_files_of_pairs(files: SampleFiles) -> None:
    pairs = (files.train_pairs, files.valid_pairs, files.test_pairs)
    for a, b in combinations(pairs, 2):
        assert not set(lines(a.english)) & set(lines(b.english))
        assert not set(lines(a.french)) & set(lines(b.french))


def test_labels_are_balanced_and_the_attainable_accuracy_is_stated(files: SampleFiles) -> None:
    labels = [label for label, _ in labelled(files.test)]
    assert set(labels) == {"positive", "negative"}
    assert 0.4 < labels.count("positive") / len(labels) < 0.6
    assert 0.9 < files.attainable < 1


def test_labelled_texts_do_not_depend_on_the_amount_of_other_text(
    files: SampleFiles, tmp_path: Path
) -> None:
    fewer = SampleSizes(unlabelled=10, train=200, valid=100, test=300, train_pairs=5, valid_pairs=0)
    again = write_samples(tmp_path, seed=4, sizes=fewer)
    assert again.test.read_bytes() == files.test.read_bytes()
    assert again.train.read_bytes() == files.train.read_bytes()


def test_french_reviews_are_the_same_reviews(files: SampleFiles, tmp_path: Path) -> None:
    french = write_samples(tmp_path, seed=4, language="french", sizes=SIZES)
    labels = [label for label, _ in labelled(french.test)]
    assert labels == [label for label, _ in labelled(files.test)]
    assert french.attainable == files.attainable
    assert lines(french.test) != lines(files.test)


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="language=german must be one of: english, french"):
        write_samples(tmp_path, language="german")  # type: ignore[arg-type]


def test_the_command_writes_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.samples.samples.SampleSizes", lambda: SIZES)
    printed = succeed(f"samples -o {tmp_path}/avis --language french --seed 3").out
    files = write_samples(tmp_path / "same", 3, "french")
    for path in (tmp_path / "same").iterdir():
        assert (tmp_path / "avis" / path.name).read_bytes() == path.read_bytes()
        assert path.name in printed
    assert f"{files.attainable:.1%}" in printed


def test_the_command_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "unlabelled.txt").write_text("mine\n")
    with pytest.raises(WarmstartError, match="exists already"):
        warmstart.make_samples(out=str(tmp_path))
    assert (tmp_path / "unlabelled.txt").read_text() == "mine\n"


def test_the_python_of_the_guide_runs(here: Path) -> None:
    guide = Path(__file__).parents[2] / "docs/samples.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", guide.read_text("utf-8"), re.M | re.S)
    exec(block, {})
    assert len(lines(here / "reviews/unlabelled.txt")) == 5_000
