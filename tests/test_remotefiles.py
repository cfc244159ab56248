"""Input that a URL names: read from a copy, which is made again when the file has changed."""

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pytest

from command_line import QUICK, TINY, World, refuse, succeed, weights_of
from warmstart.errors import WarmstartError
from warmstart.remotefiles import is_public
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
    assert "pip install 'warmstart[remote]'" in refuse(
        f"pretrain s3://bucket/texts.txt -o run {TINY}"
    )
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


class _Handler(BaseHTTPRequestHandler):
    """Answers with a line of text, or redirects to what follows `/to/`."""

    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        target = self.path.partition("/to/")[2]
        self.send_response(302 if target else 200)
        body = b"" if target else b"one\n"
        self.send_header("Content-Length", str(len(body)))
        if target:
            self.send_header("Location", target)
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 (the name that the server calls)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _Handler.paths = []
    with ThreadingHTTPServer(("0.0.0.0", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_private_addresses_need_permission(host: str, server: ThreadingHTTPServer) -> None:
    """Names that lead to them, too; nothing is sent there."""
    url = f"http://{host}:{server.server_port}/a.txt"
    with pytest.raises(
        WarmstartError, match=r"a\.txt: it leads to (127\.0\.0\.1|0\.0\.0\.0|::1),"
    ) as caught:
        expand([url])
    assert str(caught.value).endswith("which is read only with --allow-private-urls")
    assert _Handler.paths == []
    assert expand([url], allow_private_urls=True)[0].read_text() == "one\n"


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("http://127.0.0.2:PORT/b.txt", r"leads to 127\.0\.0\.2, .*--allow-private-urls"),
        ("//127.0.0.2:PORT/b.txt", r"leads to 127\.0\.0\.2, .*--allow-private-urls"),
        ("file:///etc/passwd", "is redirected to file:///etc/passwd, another scheme"),
        ("ftp://127.0.0.1/b.txt", "is redirected to ftp://127.0.0.1/b.txt, another scheme"),
    ],
)
def test_redirects_are_checked_like_addresses(
    target: str, complaint: str, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For this test, one address of the machine counts as public."""
    monkeypatch.setattr("warmstart.remotefiles.is_public", lambda address: address == "127.0.0.1")
    start = f"http://127.0.0.1:{server.server_port}"
    assert expand([f"{start}/a.txt"])[0].read_text() == "one\n"
    assert expand([f"{start}/to/{start}/c.txt"])[0].read_text() == "one\n"
    with pytest.raises(WarmstartError, match=complaint):
        expand([f"{start}/to/{target.replace('PORT', str(server.server_port))}"])
    assert "/b.txt" not in _Handler.paths


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://localhost/a.txt", "it leads to "),
        ("sftp://10.0.0.1/a.txt", "it leads to 10.0.0.1, on this machine or in a private network"),
        ("zip://a.txt::http://127.0.0.1/a.zip", "it joins several addresses by ::"),
    ],
)
def test_other_schemes_need_permission_too(url: str, complaint: str) -> None:
    with pytest.raises(WarmstartError, match=f"{complaint}.*--allow-private-urls"):
        expand([url])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1"),
        *("::ffff:10.0.0.1", "ff02::1"),
    ],
)
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public("8.8.8.8")
    assert is_public("2001:4860:4860::8888")


def test_a_configuration_may_give_permission(server: ThreadingHTTPServer, here: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}/a.txt"
    assert "--allow-private-urls" in refuse(f"tokenizer {url} -o tokenizer")
    (here / "job.toml").write_text(f'files = ["{url}"]\nallow_private_urls = true\n')
    succeed("tokenizer --config job.toml -o tokenizer --vocab-size 300")
