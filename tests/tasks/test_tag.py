"""Words are tagged whatever their number of tokens, and texts whatever their length."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import warmstart
from command_line import MACHINE, read, run, succeed
from warmstart.batching.batches import pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.tagged import read_tagged
from warmstart.kernels.loss import IGNORE
from warmstart.model.models import TokenClassifier
from warmstart.runtime import Runtime
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.samples.tagged import TaggedFiles, TaggedSizes, write_tagged
from warmstart.settings.model import ModelConfig
from warmstart.tasks.tag import TagObjective, TagTask
from warmstart.tasks.vectors import TextBatches
from warmstart.tasks.word_features import WordFeatureBaseline
from warmstart.tasks.word_rows import mean_by_word, tokens_of_words, windows

TASK = TagTask()


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> TaggedFiles:
    """Return small files of tagged sentences."""
    sizes = TaggedSizes(train=120, valid=60, test=60)
    return write_tagged(tmp_path_factory.mktemp("tags"), sizes=sizes)


@pytest.fixture(scope="module")
def tagger(tags: TaggedFiles, base: Path) -> Path:
    """Return a tagger, warm-started from a causal model of 16 tokens."""
    out = base.parent / "tagger"
    files = f"--train {tags.train} --valid {tags.valid}"
    succeed(f"finetune --from {base} {files} --epochs 12 --learning-rate 0.01 {MACHINE} -o {out}")
    return out


@pytest.mark.parametrize("num_tokens", [1, 8, 9, 20, 61])
@pytest.mark.parametrize("max_length", [3, 5, 10])
@pytest.mark.parametrize("has_start", [True, False])
def test_windows_decide_every_word_once(num_tokens: int, max_length: int, has_start: bool) -> None:
    ids = [*[1] * has_start, *range(100, 100 + num_tokens), 2]
    tokens = list(range(int(has_start), len(ids) - 1))
    words = [*tokens[::2], tokens[-1]] if num_tokens > 1 else tokens
    words = sorted({*words, *([] if has_start else [0])})
    decided: dict[int, int] = {}
    for row, of_row in windows(ids, [(word, word + 1) for word in words], max_length):
        assert len(row) <= max(max_length, 3)
        assert row[-1] == 2
        assert row[0] == 1 or not has_start
        for word, first, last in of_row:
            assert word not in decided
            assert last == first + 1
            decided[word] = row[first]
    assert [decided[word] for word in range(len(words))] == [ids[token] for token in words]


def test_a_word_has_most_of_the_context_that_fits() -> None:
    ids = [1, *range(100, 160), 2]
    tokens = [(token, token + 1) for token in range(1, 61)]
    for row, of_row in list(windows(ids, tokens, 22))[1:-1]:
        places = [first for _, first, _ in of_row]
        assert min(places) >= 5
        assert max(places) <= len(row) - 6


def test_a_causal_model_reads_the_last_token_of_a_word(tiny: ModelConfig) -> None:
    words, tokens = [(0, 4), (5, 9), (10, 12)], [(0, 2), (2, 4), (5, 9), (9, 9)]
    causal, both = (replace(tiny, attention=kind) for kind in ("causal", "bidirectional"))
    assert list(tokens_of_words(words, tokens, both)) == [(0, 2), (2, 3), (3, 4)]
    assert list(tokens_of_words(words, tokens, causal)) == [(1, 2), (2, 3), (3, 4)]


def test_loss_and_outputs_do_not_depend_on_batches(tiny: ModelConfig, randomised: Any) -> None:
    model = randomised(TokenClassifier(tiny, 3)).eval()
    texts = [[1, *range(5, 5 + n), 2] for n in (2, 9, 4)]
    targets = [[IGNORE, *(i % 3 for i in range(len(ids) - 2)), IGNORE] for ids in texts]
    objective = TagObjective()
    whole = objective(model, pad_texts(texts, targets, range(3), 0))["tag"]
    parts = [pad_texts(texts, targets, [row], 0) for row in range(3)]
    assert_close(whole, sum(objective(model, part)["tag"] for part in parts))
    assert objective.count(parts) == {"tag": 15.0}
    spans = [[(token, token + 1) for token in range(1, len(ids) - 1)] for ids in texts]
    data = Dataset(ids=texts, word_tokens=spans)
    cpu = Runtime(torch.device("cpu"))
    few, many = (TASK.outputs(model, data, TextBatches(n, 0, cpu)) for n in (4, 999))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_it_learns_and_is_scored(tagger: Path, tags: TaggedFiles) -> None:
    config = read(tagger / "config.json")
    assert config["task"] == "tag"
    assert config["classes"][-1] == "O"
    scores = succeed(f"evaluate {tagger} --test {tags.test} --json {MACHINE}").json
    assert scores["rows"] == 60
    assert scores["entity_f1"] > 0.3
    assert set(scores["kinds"]) == {"person", "place", "date"}
    low, high = (scores["intervals"]["entity_f1"][end] for end in ("low", "high"))
    assert low < scores["entity_f1"] < high
    assert "entity F1" in (tagger / "README.md").read_text()
    assert "in windows that overlap" in (tagger / "README.md").read_text()


def test_entities_have_their_characters(tagger: Path) -> None:
    model = warmstart.load(tagger, threads=1, precision="fp32")
    texts = [
        "I bought it in Lyon  on 3 May 2001, and\tAnna Keller took it.",
        "",
        "  ",
        "It was published in Oslo in March 1999. " * 9,  # far longer than the model
    ]
    answers = model.predict(texts)
    for text, answer in zip(texts, answers, strict=True):
        for entity in answer.entities:
            assert text[entity.start : entity.end] == entity.text
            assert 0 < entity.probability <= 1
    assert not answers[1].entities
    assert {entity.end for entity in answers[3].entities if entity.start > 300}
    assert not any(size.is_truncated for size in model.measure(texts))


def test_predict_writes_entities(tagger: Path, here: Path) -> None:
    text = "I bought it in Lyon on 3 May 2001 ."
    printed = succeed(f"predict {tagger} --json {MACHINE}", text.encode()).json
    assert printed["entities"]
    Path("texts.txt").write_text(f"{text}\n\n")
    for name in ("out.csv", "out.jsonl", "out.parquet", "out.txt"):
        succeed(f"predict {tagger} texts.txt -o {name} {MACHINE}")
    row = json.loads(Path("out.jsonl").read_text().splitlines()[0])
    assert [e["text"] for e in row["entities"]] == [e["text"] for e in printed["entities"]]
    assert row["label"] in Path("out.csv").read_text().replace('""', '"')


def test_the_task_follows_from_the_file(tags: TaggedFiles, base: Path, here: Path) -> None:
    ran = succeed(f"finetune --from {base} --train {tags.train} --epochs 1 {MACHINE} -o out")
    assert (
        "it is a CoNLL file, with a word and its tag on each line, so this is --task tag" in ran.err
    )
    assert "24 texts of 120 set aside to validate on, chosen by content" in ran.err
    assert read(here / "out/config.json")["settings"]["task"] == "tag"


def test_a_frozen_tagger_keeps_its_backbone(tags: TaggedFiles, base: Path, here: Path) -> None:
    files = f"--train {tags.train} --valid {tags.valid}"
    succeed(f"finetune --from {base} --frozen {files} --epochs 3 {MACHINE} -o out")
    from safetensors.torch import load_file

    before, after = load_file(base / "model.safetensors"), load_file("out/model.safetensors")
    shared = [name for name in after if name.startswith("backbone.")]
    assert shared
    assert all(torch.equal(before[name], after[name]) for name in shared)
    scored = succeed(f"evaluate out --test {tags.valid} --json {MACHINE}").json
    assert scored["accuracy"] == pytest.approx(read(here / "out/scores.json")["valid"]["accuracy"])


def test_plain_tags_give_every_word_its_tag(base: Path, here: Path) -> None:
    lines = "".join(f"word\tNOUN\nof\tADP\nnumber{n}\tX\n\n" for n in range(30))
    Path("plain.conll").write_text(lines)
    ran = succeed(f"finetune --from {base} --train plain.conll --epochs 8 {MACHINE} -o out")
    assert "3 plain tags (ADP, NOUN, X)" in ran.err
    assert "validation accuracy" in ran.out
    (answer,) = warmstart.load("out", threads=1).predict(["word of number3"])
    assert [entity.text for entity in answer.entities] == ["word", "of", "number3"]
    assert answer.label.startswith("word (NOUN); of (ADP)")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--truncate tail", "--truncate tail is for classifiers: a tagger reads all"),
        ("--pieces", "--pieces is for classifiers"),
        ("--train-labels labels.txt", "a file of labels is for classifiers"),
        ("--balance weights", "--balance weights is for classifiers"),
        ("--select f1", "--select f1 is for --task classify"),
        ("--task classify", "plain lines hold no labels"),
        ("--labels 9999", "--labels 9999 is not possible"),
    ],
)
def test_what_has_no_meaning_for_tags_is_refused(
    options: str, complaint: str, tags: TaggedFiles, base: Path, here: Path
) -> None:
    Path("labels.txt").write_text("O\n")
    ran = run(f"finetune --from {base} --train {tags.train} {options} {MACHINE} -o out")
    assert ran.code == 2
    assert complaint in ran.said


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a\tO\nb\tO\n", "every word to train on has the tag 'O'"),
        ("a\tX\nb\tX\n", "every word to train on has the tag 'X'"),
    ],
)
def test_one_tag_teaches_nothing(content: str, complaint: str, base: Path, here: Path) -> None:
    Path("one.conll").write_text(f"{content}\n" * 12)
    ran = run(f"finetune --from {base} --train one.conll --valid one.conll {MACHINE} -o out")
    assert ran.code == 2
    assert complaint in ran.said
    assert not Path("out").exists()


def test_a_tag_that_only_the_test_has_is_refused(tagger: Path, here: Path) -> None:
    Path("other.conll").write_text("Anna\tO\n\nLyon\tB-river\n")
    ran = run(f"evaluate {tagger} --test other.conll {MACHINE}")
    assert ran.code == 2
    assert (
        "other.conll line 3: the tag 'B-river' in this sentence is not in the training" in ran.said
    )
    known = "Keller\tI-person\n"  # only the test has it inside, but the kind is known
    Path("known.conll").write_text(known)
    assert succeed(f"evaluate {tagger} --test known.conll --json {MACHINE}").json["rows"] == 1


def test_every_split_reads_the_same_scheme(tmp_path: Path) -> None:
    file = tmp_path / "a.conll"
    file.write_text("Anna\tS-per\nleft\tO\nNew\tB-loc\nYork\tE-loc\n")
    data = read_tagged(file)
    labels = TASK.read_labels(data)
    assert labels == {"classes": ["B-loc", "B-per", "I-loc", "I-per", "O"], "spaced": True}
    assert TASK.targets(data, labels) == [["B-per", "O", "B-loc", "I-loc"]]
    assert TASK.metric_name(labels) == "entity F1"


def test_it_is_planned_and_counted(tags: TaggedFiles, base: Path) -> None:
    planned = succeed(f"plan finetune --from {base} --train {tags.train} --json {MACHINE}").json
    assert planned["steps"] > 0


def test_the_report_of_a_file_counts_entities(tags: TaggedFiles) -> None:
    report = succeed(f"data {tags.train} --json").json
    assert set(report["files"][0]["labels"]) == {"date", "person", "place"}
    assert report["files"][0]["rows"] == 120


def test_samples_are_the_same_with_and_without_tags(tmp_path: Path) -> None:
    sizes = SampleSizes(
        unlabelled=5, train=5, valid=5, test=5, train_pairs=5, valid_pairs=2, test_pairs=2
    )
    before = write_samples(tmp_path, sizes=sizes).train.read_bytes()
    write_tagged(tmp_path, sizes=TaggedSizes(train=3, valid=2, test=2))
    assert write_samples(tmp_path, sizes=sizes).train.read_bytes() == before


def test_the_mean_of_the_tokens_of_a_word_decides() -> None:
    values = torch.arange(12.0).reshape(6, 2)
    means = mean_by_word(values, [(0, 1), (1, 4), (4, 6)])
    expected = torch.stack([values[0], values[1:4].mean(0), values[4:].mean(0)])
    assert_close(means, expected)
    assert mean_by_word(values, []).shape == (0, 2)


def test_the_baseline_is_fitted_once_for_the_same_sentences(tags: TaggedFiles) -> None:
    train = read_tagged(tags.train)
    train = replace(train, targets=train.labels)
    baseline = WordFeatureBaseline(sorted({tag for of_text in train.labels for tag in of_text}))
    fitted = baseline.fit(train, 1.0)
    assert baseline.fit(train.subset(range(len(train))[::-1]), 1.0) is fitted
    assert baseline.fit(train.subset(range(40)), 1.0) is not fitted
