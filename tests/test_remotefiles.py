"""Input that a URL names: read from a copy, which is made again when the file has changed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from command_line import QUICK, TINY, World, refuse, succeed, weights_of
from warmstart.errors import WarmstartError
from warmstart.textfiles import expand


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe({"/texts/a.txt": b"one\n", "/texts/b.txt": b"two\n", "/texts/c.png": b"x"})
    yield filesystem
    filesystem.rm("/", recursive=True)


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        ("memory://texts/b.txt", [b"two\n"]),
        ("memory://texts", [b"one\n", b"two\n"]),
        ("memory://texts/*.txt", [b"one\n", b"two\n"]),
    ],
)
@pytest.mark.usefixtures("memory")
def test_files_folders_and_globs_are_copied(pattern: str, content: list[bytes]) -> None:
    assert [path.read_bytes() for path in expand([pattern])] == content


def test_a_copy_is_made_again_only_if_the_file_has_changed(memory: Any) -> None:
    (first,) = expand(["memory://texts/a.txt"])
    written = first.stat().st_mtime_ns
    assert expand(["memory://texts/a.txt"]) == (first,)
    assert first.stat().st_mtime_ns == written
    memory.pipe("/texts/a.txt", b"another\n")
    (second,) = expand(["memory://texts/a.txt"])
    assert second != first
    assert (first.read_bytes(), second.read_bytes()) == (b"one\n", b"another\n")


def test_a_local_url_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert expand([f"file://{tmp_path}/a.txt"]) == (tmp_path / "a.txt",)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("memory://gone.txt", "memory://gone.txt: cannot be read"),
        ("memory://gone/*.txt", "no file matches this address"),
        ("nowhere://a.txt", "nowhere://a.txt: cannot be read"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(url: str, complaint: str) -> None:
    with pytest.raises(WarmstartError, match=complaint.replace("*", r"\*")):
        expand([url])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert "pip install 'warmstart[s3]'" in refuse(f"pretrain s3://bucket/texts.txt -o run {TINY}")
    assert not (here / "run").exists()


def test_commands_train_on_urls(
    memory: Any, world: World, base: Path, warm: Path, here: Path
) -> None:
    memory.pipe({f"/{path.name}": path.read_bytes() for path in vars(world).values()})
    texts, train, valid, _ = (f"memory://{path.name}" for path in vars(world).values())
    succeed(f"pretrain {texts} -o base {TINY}")
    assert weights_of(here / "base") == weights_of(base)
    succeed(f"finetune --from {base} --train {train} --valid {valid} -o warm {QUICK}")
    assert weights_of(here / "warm") == weights_of(warm)
