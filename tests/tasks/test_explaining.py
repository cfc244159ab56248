"""What each word changes: equal to deleting words by hand, and to the sums of linear models."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, World, succeed
from warmstart.tasks import explaining
from warmstart.tasks.explaining import (
    MOST_SENTENCES,
    leave_out,
    sentence_spans,
    word_spans,
)
from warmstart.tasks.latent_semantics import placed_units, units_of

TEXTS = ["A fine book, but far too long.", "Dull", "  not   so\nbad ", "", "une œuvre İstanbul!"]


def load(run: Path) -> Any:
    return warmstart.load(run, threads=1, precision="fp32")


@pytest.mark.parametrize("text", TEXTS)
def test_weights_are_what_deleting_each_word_changes(warm: Path, text: str) -> None:
    model = load(warm)
    (explanation,) = model.explain([text])
    (whole,) = model.predict([text])
    assert explanation.prediction.label == whole.label
    words = text.split()
    if len(words) < 2:
        assert explanation.words == ()
        return
    assert [word.text for word in explanation.words] == words
    for number, word in enumerate(explanation.words):
        shorter = re.sub(rf"{re.escape(word.text)}\s*", "", text, count=1)
        (without,) = model.predict([shorter.rstrip() if number == len(words) - 1 else shorter])
        change = whole.probability - without.probabilities[whole.label]
        assert word.weight == pytest.approx(change, abs=1e-5)
        assert word.without.probabilities == pytest.approx(without.probabilities, abs=1e-5)


def test_texts_do_not_change_each_other(warm: Path) -> None:
    model = load(warm)
    for text, together in zip(TEXTS, model.explain(TEXTS), strict=True):
        (alone,) = model.explain([text])
        assert [w.weight for w in together.words] == pytest.approx(
            [w.weight for w in alone.words], abs=1e-5
        )


@dataclass(frozen=True)
class Length:
    """A prediction: how long a text is."""

    size: int

    def support(self, other: "Length") -> float:
        return other.size


def test_only_so_many_characters_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "CHUNK_CHARS", 100)
    calls = []

    def predict(texts: list[str], texts2: list[str] | None) -> list[Length]:
        calls.append(sum(map(len, texts)))
        return [Length(len(text)) for text in texts]

    (explanation,) = explaining.explain_by_omission(predict, ["word " * 10], None)
    assert [word.weight for word in explanation.words] == [5] * 9 + [6]  # and a space before it
    assert calls[0] == 50
    assert max(calls[1:]) <= 100


def test_a_long_text_is_explained_by_its_strongest_sentences(
    warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "MOST_WORDS", 6)
    text = "A fine book. It is dull and long! Nobody reads it."
    model = load(warm)
    (explanation,) = model.explain([text])
    sentences = ["A fine book.", "It is dull and long!", "Nobody reads it."]
    assert [part.text for part in explanation.sentences] == sentences
    (whole,) = model.predict([text])
    for part in explanation.sentences:
        (without,) = model.predict([text.replace(part.text, "").replace("  ", " ").strip()])
        change = whole.probability - without.probabilities[whole.label]
        assert part.weight == pytest.approx(change, abs=1e-5)
    strongest = max(explanation.sentences, key=lambda part: abs(part.weight))
    words = [word.text for word in explanation.words]
    assert set(strongest.text.split()) <= set(words)
    assert len(words) <= 6


def test_parts_make_up_the_text() -> None:
    text = 'Mr. X came. "Why?" he said... Nobody knew!\nA line\n\n你好。世界 end'
    for spans in (word_spans(text), sentence_spans(text)):
        assert "".join(text[start:end] for start, end in spans) == text
    assert len(sentence_spans("One. " * 999)) <= MOST_SENTENCES
    assert leave_out("a b c", (4, 5)) == "a b"
    assert leave_out("a b c", (0, 2)) == "b c"


def test_a_run_of_stops_takes_linear_time() -> None:
    """It takes hours if every stop starts a search of its own."""
    assert len(sentence_spans("." * 500_000 + " a b")) == 2


@pytest.fixture(scope="module")
def race(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a comparison with an LSA and a TF-IDF model."""
    out = tmp_path_factory.mktemp("race") / "out"
    files = f"--train {world.train} --valid {world.valid} --unlabelled {world.texts}"
    succeed(f"compare {files} --seeds 0 --trials 1 -o {out} {MACHINE}")
    return out


@pytest.mark.parametrize("name", ["lsa", "tf-idf"])
@pytest.mark.parametrize("text", [*TEXTS, "{pair}, a {pair}"])
def test_contributions_add_up_to_the_log_odds(race: Path, name: str, text: str) -> None:
    """The log-odds of a text are those of no text, where only the offset is left, plus words.

    A counted pair of words may be one word between white space, such as `well-made`.
    """
    model, vocabulary = load(race / "models" / name), load(race / "models/tf-idf").linear.features
    names = vocabulary.transformer_list[0][1].vocabulary_
    text = text.format(pair=min(name for name in names if " " in name).replace(" ", "-"))
    explained, empty = model.explain([text, ""])
    label = explained.prediction.label
    (other,) = {"negative", "positive"} - {label}

    def log_odds(prediction: Any) -> float:
        return float(
            np.log(prediction.probabilities[label]) - np.log(prediction.probabilities[other])
        )

    assert [word.text for word in explained.words] == text.split()
    total = sum(word.weight for word in explained.words)
    assert total == pytest.approx(log_odds(explained.prediction) - log_odds(empty.prediction))


@pytest.mark.parametrize("text", [*TEXTS, "你好世界 and hello", "a-b c_d e1"])
def test_placed_units_are_the_units(text: str) -> None:
    placed = list(placed_units(text))
    assert sorted(unit for unit, _ in placed) == sorted(units_of(text))
    for unit, places in placed:
        for word, place in zip(unit.split(" "), places, strict=True):
            assert text.lower()[place : place + len(word)] == word


def test_several_labels_are_explained_by_their_mean(base: Path, here: Path) -> None:
    sets = [["bad"], ["good"], ["bad", "good"]]
    rows = [{"text": f"{' '.join(s)} book {n}", "labels": s} for n in range(12) for s in sets]
    (here / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    succeed(f"finetune --from {base} --train train.jsonl -o run --epochs 2 {MACHINE}")
    model, text = load(here / "run"), "good bad book"
    (explanation,) = model.explain([text])
    (without,) = model.predict(["bad book"])
    labels = explanation.prediction.labels
    if labels:
        shares = explanation.prediction.probabilities
        changes = [shares[name] - without.probabilities[name] for name in labels]
        assert explanation.words[0].weight == pytest.approx(np.mean(changes), abs=1e-5)
    files = "--train train.jsonl --unlabelled train.jsonl"
    succeed(f"compare {files} --folds 2 --seeds 0 --trials 1 -o race {MACHINE}")
    explained = load(here / "race").explain([text])
    assert [word.text for word in explained[0].words] == text.split()
    assert explained.to_pandas()["words"].tolist() == [explained[0].decisive_words]


def test_a_model_that_cannot_be_explained_is_refused(base: Path) -> None:
    with pytest.raises(warmstart.WarmstartError, match="to explain labels you need a classifier"):
        load(base).explain(["a book"])
