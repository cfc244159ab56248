"""`look word`: one word in several sentences."""

from pathlib import Path

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, refuse, succeed

SENTENCES = "The bank is slow.\nNo word here.\nMy Bank, far away!\nA river bank.\n"


@pytest.fixture
def file(here: Path) -> Path:
    (here / "bank.txt").write_text(SENTENCES)
    return here / "bank.txt"


def test_a_word_in_several_sentences(base: Path, file: Path) -> None:
    report = succeed(f"look word {base} bank {file} --json {MACHINE}").json
    assert report["sentences"] == ["The bank is slow.", "My Bank, far away!", "A river bank."]
    words = [
        text[slice(*span)] for text, span in zip(report["sentences"], report["spans"], strict=True)
    ]
    assert words == ["bank", "Bank", "bank"]
    assert ["".join(tokens) for tokens in report["tokens"]] == words
    values = np.array(report["similarities"])
    assert values.shape == (2, 3, 3)
    assert np.allclose(np.diagonal(values, axis1=1, axis2=2), 1)
    assert values[0, 0, 2] > values[1, 0, 2]  # one word, two contexts
    table = succeed(f"look word {base} bank {file} {MACHINE}").out
    assert "1–3" in table
    assert f"{values[1, 0, 2]:.2f}" in table


@pytest.mark.parametrize(("name", "start"), [("w.png", b"\x89PNG"), ("w.svg", b"<?xml")])
def test_a_word_is_drawn(base: Path, file: Path, name: str, start: bytes) -> None:
    file.write_text(SENTENCES * 4)
    for _ in range(2):  # a figure replaces a figure
        assert f"wrote {name}" in succeed(f"look word {base} bank {file} -o {name} {MACHINE}").out
    assert (file.parent / name).read_bytes().startswith(start)


def test_a_word_from_python(base: Path, file: Path) -> None:
    similarity = warmstart.look_word(run=base, word="bank", file=file, threads=1)
    assert len(similarity.pairs) == 3
    assert "data:image/png" in similarity._repr_html_()
    with pytest.raises(warmstart.WarmstartError, match="file is missing"):
        warmstart.look_word(run=base, word="bank")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("river", "'river' occurs in one text of 4; a comparison needs two or more"),
        ("zzzz", "'zzzz' occurs in no text of 4"),
        ("' '", "WORD is empty"),
        ("bank -o v.npy", "-o v.npy must end in .png, .svg"),
    ],
)
def test_refusals(base: Path, here: Path, arguments: str, fault: str) -> None:
    assert fault in refuse(f"look word {base} {arguments} {MACHINE}", SENTENCES.encode())
    assert not list(here.iterdir())


def test_a_word_beyond_what_the_model_reads_does_not_count(base: Path) -> None:
    lines = f"bank one\nbank two\n{'and so on ' * 30} bank\n".encode()
    report = succeed(f"look word {base} bank --json {MACHINE}", lines).json
    assert len(report["sentences"]) == 2
