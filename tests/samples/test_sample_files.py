from itertools import combinations
from pathlib import Path

import pytest

import warmstart
from product import succeed
from warmstart.errors import WarmstartError
from warmstart.samples.samples import SampleFiles, SampleSizes, write_samples

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
