"""BLEU and chrF as sacreBLEU counts them, with intervals and the paired test."""

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from warmstart.evaluation.metrics import corpus_bleu, paired_test, translation_scores

REFERENCES = [
    f"The {size} dog sees {num} cats near the {place}, and then it sleeps."
    for size in ("big", "small", "old")
    for num in ("two", "three", "ten")
    for place in ("house", "river", "station")
]
GOOD = [text.replace("near", "by") for text in REFERENCES]
WORSE = [
    text.replace("sees", "is seeing").replace("then it", "it then") if row % 3 else text
    for row, text in enumerate(GOOD)
]


def test_the_scores_are_sacrebleus() -> None:
    scores = translation_scores(WORSE, REFERENCES)
    assert scores["bleu"].score == sacrebleu.corpus_bleu(WORSE, [REFERENCES]).score
    assert scores["chrf"].score == sacrebleu.corpus_chrf(WORSE, [REFERENCES]).score
    assert corpus_bleu(WORSE, REFERENCES) == scores["bleu"].score


def test_the_signatures_are_the_default_ones() -> None:
    scores = translation_scores(GOOD, REFERENCES)
    version = sacrebleu.__version__
    for part in ("nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", f"version:{version}"):
        assert part in scores["bleu"].signature.split("|")
    for part in ("nrefs:1", "case:mixed", "nc:6", "nw:0", f"version:{version}"):
        assert part in scores["chrf"].signature.split("|")


def test_intervals_hold_the_score_and_are_always_the_same() -> None:
    first, second = translation_scores(WORSE, REFERENCES), translation_scores(WORSE, REFERENCES)
    assert first == second
    for measured in first.values():
        assert measured.low < measured.score < measured.high


def test_references_score_100_and_empty_translations_0() -> None:
    right = translation_scores(REFERENCES, REFERENCES)
    assert right["bleu"].score == pytest.approx(100)
    assert right["chrf"].score == pytest.approx(100)
    nothing = translation_scores([""] * len(REFERENCES), REFERENCES)
    assert nothing["bleu"].score == nothing["chrf"].score == 0


def test_one_sentence_is_enough() -> None:
    scores = translation_scores(GOOD[:1], REFERENCES[:1])
    assert scores["bleu"].low == pytest.approx(scores["bleu"].high)


def test_sentences_with_nothing_in_common_are_counted() -> None:
    scores = translation_scores(["abc", "x", "y"], ["abc", "p", "q"])
    assert 0 <= scores["chrf"].low < scores["chrf"].high <= 100
    paired_test(["abc", "x", "y"], ["x", "y", "abc"], ["abc", "p", "q"])


def test_two_systems_are_compared_sentence_by_sentence() -> None:
    bleu, chrf = paired_test(WORSE, GOOD, REFERENCES)
    assert [bleu.metric, chrf.metric] == ["BLEU", "chrF"]
    assert bleu.other == BLEU().corpus_score(WORSE, [REFERENCES]).score
    assert bleu.score == BLEU().corpus_score(GOOD, [REFERENCES]).score
    assert chrf.other == CHRF().corpus_score(WORSE, [REFERENCES]).score
    assert chrf.score == CHRF().corpus_score(GOOD, [REFERENCES]).score
    assert bleu.p_value < 0.01
    assert "bs:1000" in bleu.signature


def test_the_order_of_two_systems_does_not_matter_to_the_test() -> None:
    there, back = paired_test(WORSE, GOOD, REFERENCES)[0], paired_test(GOOD, WORSE, REFERENCES)[0]
    assert (there.other, there.score) == (back.score, back.other)
    assert there.p_value == pytest.approx(back.p_value, abs=0.01)


def test_equal_systems_show_no_difference() -> None:
    assert [test.p_value for test in paired_test(GOOD, list(GOOD), REFERENCES)] == [1.0, 1.0]
    nearly = [*GOOD[:-1], REFERENCES[-1]]
    assert all(test.p_value > 0.05 for test in paired_test(GOOD, nearly, REFERENCES))
