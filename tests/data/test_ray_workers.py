"""Tokenizing on a Ray cluster: two machines made of processes, one of which is lost."""

import os
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from ray.cluster_utils import Cluster

from command_line import TINY, World, read, run, succeed
from warmstart import ray_cluster
from warmstart.data import shards
from warmstart.data import shards as shard_workers
from warmstart.data.corpus import source_of
from warmstart.data.prepare import prepare, workers_of
from warmstart.data.shards import ShardWriter, cut, files_of
from warmstart.errors import LostProcessError, WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.tokenization.backends import train_tokenizer
from warmstart.verify.resume import traces
from warmstart.version import code_digest

pytestmark = pytest.mark.slow

BOOKS = [f"Book {n} begins.</s> It is short.\nIts last line, number {n}." for n in range(8_000)]
PRETRAIN = f"pretrain {{texts}} -o {{out}} {TINY}"


@pytest.fixture
def writer() -> ShardWriter:
    return ShardWriter(train_tokenizer(BOOKS[:400], "bpe", 350), has_index=True)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "books.txt"
    path.write_text("\n\n".join(BOOKS) + "\n")
    return path


def _prepared(text: Path, writer: ShardWriter, folder: Path, ray: str | None) -> dict[str, bytes]:
    """Prepare a text; return the content of every file that was written."""
    with workers_of(ray, 1) as workers:
        facts = prepare(source_of([str(text)], "blank"), None, writer, folder / "cache", workers)
    files = {path.name: path.read_bytes() for path in (folder / "cache").iterdir()}
    return {**files, "facts": repr(facts).encode()}


def _finished(folder: Path) -> dict[str, int]:
    """Return when each shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("shards/[0-9]*")}


def test_tokens_survive_the_loss_of_a_machine(
    cluster: Cluster,
    text: Path,
    writer: ShardWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = _prepared(text, writer, tmp_path / "alone", None)
    monkeypatch.setattr(shards, "SHARD_CHARS", 20_000)
    lost, folder = cluster.add_node(num_cpus=1), tmp_path / "together"
    before: dict[str, int] = {}

    def lose_one() -> None:
        while not before:
            time.sleep(0.01)
            before.update(_finished(folder))
        cluster.remove_node(lost, allow_graceful=False)

    losing = Thread(target=lose_one)
    losing.start()
    found = _prepared(text, writer, folder, cluster.address)
    losing.join()
    assert found == expected
    assert len(before) < 10 < len(_finished(folder))
    assert before.items() < _finished(folder).items()


def test_a_text_that_no_worker_survives_ends_the_preparation(
    cluster: Cluster,
    text: Path,
    writer: ShardWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", 200_000)
    monkeypatch.setattr(ray_cluster, "RETRIES", 1)
    monkeypatch.setattr(shard_workers, "files_of", lambda *_: os._exit(1))
    with pytest.raises(LostProcessError, match=r"all were lost \(WorkerCrashedError\), perhaps"):
        _prepared(text, writer, tmp_path, cluster.address)
    assert _finished(tmp_path) == {}


def test_a_run_is_that_of_one_machine(
    cluster: Cluster, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = (RunFolder(tmp_path / name) for name in ("alone", "together"))
    succeed(PRETRAIN, texts=world.texts, out=alone.path)
    monkeypatch.setattr(shards, "SHARD_CHARS", 2_000)
    succeed(f"{PRETRAIN} --ray {cluster.address}", texts=world.texts, out=together.path)
    assert traces(together) == traces(alone)
    assert read(together.config_file)["settings"] == read(alone.config_file)["settings"]


def test_a_machine_without_the_package_is_told(
    cluster: Cluster, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warmstart").mkdir()
    (tmp_path / "warmstart/__init__.py").touch()
    monkeypatch.setattr(shards, "SHARD_CHARS", 2_000)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PYTHONPATH", str(tmp_path))
        added = cluster.add_node(num_cpus=1)
    command = f"{PRETRAIN} --ray {cluster.address}"
    ran = run(command, texts=world.texts, out=tmp_path / "out")
    cluster.remove_node(added)
    assert ran.code == 2
    assert "cannot run warmstart (No module named 'warmstart." in ran.said
    assert "install the same version on all machines" in ran.said
    assert not (tmp_path / "out").exists()


def test_a_machine_with_other_code_tokenizes_nothing(text: Path, writer: ShardWriter) -> None:
    first, *_ = cut(source_of([str(text)], "blank").passages(), 2_000)
    with pytest.raises(WarmstartError, match="has other code than the machine that asks"):
        files_of(b"other", writer, first)
    assert set(files_of(code_digest(), writer, first)) >= {"train.bin", "valid.bin"}


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1:1", "--ray 127.0.0.1:1: no Ray cluster answers there"),
        ("nonsense", "--ray nonsense: no Ray cluster answers there (it is not HOST:PORT)"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(
    address: str, complaint: str, world: World, tmp_path: Path
) -> None:
    ran = run(f"{PRETRAIN} --ray {address}", texts=world.texts, out=tmp_path / "out")
    assert ran.code == 2
    assert complaint in ran.said
    assert not (tmp_path / "out").exists()


def test_without_ray_its_package_is_named(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    ran = run(f"{PRETRAIN} --ray auto", texts=world.texts, out=tmp_path / "out")
    assert ran.code == 2
    assert "pip install 'warmstart[ray]'" in ran.said
    assert not (tmp_path / "out").exists()
