import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import warmstart
from command_line import MACHINE, World, read_labelled_rows, refuse, run, succeed

WIDTH = 16


@pytest.fixture
def texts(world: World, here: Path) -> list[str]:
    found = [text for _, text in read_labelled_rows(world.test)]
    (here / "texts.txt").write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
    return found


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_every_format_holds_the_same_vectors(
    pooling: str, base: Path, texts: list[str], here: Path
) -> None:
    for name in ("v.npy", "v.jsonl", "v.parquet"):
        succeed(f"embed {base} texts.txt --pooling {pooling} -o {name} {MACHINE}")
    array = np.load("v.npy", allow_pickle=False)
    assert array.dtype == np.float32
    assert array.shape == (len(texts), WIDTH)
    records = [json.loads(line) for line in (here / "v.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == texts
    assert np.array_equal(np.float32([record["vector"] for record in records]), array)
    table = pq.read_table("v.parquet").to_pydict()
    assert table["text"] == texts
    assert np.array_equal(np.float32(table["vector"]), array)
    found = warmstart.load(base, precision="fp32", threads=1).embed(texts, pooling=pooling)
    assert np.array_equal(found, array)


def test_tokens_in_context(base: Path, texts: list[str], here: Path) -> None:
    for name in ("v.npz", "v.jsonl", "v.parquet"):
        succeed(f"embed {base} texts.txt --tokens -o {name} {MACHINE}")
    found = np.load("v.npz", allow_pickle=False)
    records = [json.loads(line) for line in (here / "v.jsonl").read_text().splitlines()]
    assert len(found["offsets"]) == len(texts) + 1
    tokenizer = warmstart.load(base).tokenizer
    for row, record in enumerate(records):
        part = slice(*found["offsets"][row : row + 2])
        assert tokenizer.pieces(found["ids"][part].tolist()) == record["tokens"]
        assert np.array_equal(np.float32(record["vectors"]), found["vectors"][part])
    table = pq.read_table("v.parquet").to_pydict()
    assert table["token"] == [token for record in records for token in record["tokens"]]
    assert table["row"] == [row for row, r in enumerate(records) for _ in r["tokens"]]
    mean = [np.mean(record["vectors"], axis=0) for record in records]
    pooled = warmstart.load(base, precision="fp32", threads=1).embed(texts)
    assert np.allclose(mean, pooled, atol=1e-5)


def test_lines_in_json_lines_out(base: Path) -> None:
    ran = succeed(f"embed {base} --normalize {MACHINE}", "déjà\n\nvu\n".encode())
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [record["text"] for record in records] == ["déjà", "", "vu"]
    assert np.allclose([np.linalg.norm(record["vector"]) for record in records], 1)
    assert succeed(f"embed {base} {MACHINE}").out == ""
    one = succeed(f"embed {base} --normalize --text déjà {MACHINE}").out.splitlines()
    assert one == ran.out.splitlines()[:1]


def test_order_and_vectors_do_not_depend_on_the_batch(
    base: Path, texts: list[str], here: Path
) -> None:
    succeed(f"embed {base} texts.txt -o a.npy {MACHINE}")
    succeed(f"embed {base} texts.txt -o b.npy --micro-tokens 8 {MACHINE}")
    assert np.allclose(np.load("a.npy"), np.load("b.npy"), atol=1e-5)


def test_what_is_cut_is_counted_and_said(base: Path, warm: Path, texts: list[str]) -> None:
    ran = succeed(f"embed {base} texts.txt -o v.npy --truncate tail --json {MACHINE}")
    cut = ran.json["truncated"]
    assert cut > 0
    said = f"{cut} of 24 texts in texts.txt are longer than 16 tokens and keep only their end"
    assert said in ran.err
    assert ran.json["vectors"] == 24
    head = warmstart.load(warm, precision="fp32").embed(texts)
    tail = warmstart.load(warm, precision="fp32").embed(texts, truncate="tail")
    assert not np.allclose(head, tail)


def test_layers(base: Path, texts: list[str]) -> None:
    predictor = warmstart.load(base, precision="fp32", threads=1)
    assert np.array_equal(predictor.embed(texts, layer=1), predictor.embed(texts))
    assert not np.allclose(predictor.embed(texts, layer=0), predictor.embed(texts))
    ran = run(f"embed {base} texts.txt --layer 2")
    assert "--layer 2 is out of range" in ran.said


def test_the_verb_returns_vectors_where_no_file_is_named(base: Path, texts: list[str]) -> None:
    result = warmstart.embed(run=base, file="texts.txt", precision="fp32", threads=1)
    assert result.vectors is not None
    assert result.vectors.shape == (24, WIDTH)
    with pytest.raises(warmstart.WarmstartError, match="file is missing"):
        warmstart.embed(run=base)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("texts.txt -o v.csv", "v.csv: one vector per text is written to .npy .jsonl .parquet"),
        ("texts.txt --tokens -o v.npy", "token vectors are written to .npz .jsonl .parquet files"),
        ("none.txt -o v.npy", "none.txt does not exist"),
        ("texts.txt --pooling max", "--pooling 'max' is unknown"),
    ],
)
def test_refusals(options: str, said: str, base: Path, texts: list[str], here: Path) -> None:
    assert said in refuse(f"embed {base} {options} {MACHINE}")
    assert [path.name for path in here.iterdir()] == ["texts.txt"]


def test_vectors_are_exact_by_default(base: Path, texts: list[str], here: Path) -> None:
    succeed(f"embed {base} texts.txt -o plain.npy --threads 1")
    ran = succeed(f"embed {base} texts.txt -o exact.npy {MACHINE}")
    assert "deviate" not in ran.err
    assert np.array_equal(np.load("plain.npy"), np.load("exact.npy"))
    assert np.array_equal(warmstart.load(base, threads=1).embed(texts), np.load("exact.npy"))


@pytest.mark.parametrize("tokens", ["", "--tokens"])
def test_a_faster_precision_says_what_it_costs(
    base: Path, texts: list[str], here: Path, tokens: str
) -> None:
    name = "v.npz" if tokens else "v.npy"
    ran = succeed(f"embed {base} texts.txt -o {name} {tokens} --precision bf16 --threads 1")
    said = re.search(r"first 24 texts deviate from fp32 by up to ([\d.]+)%", ran.err)
    assert said is not None
    assert 0 < float(said[1]) < 5
