"""Models come from the hub by name; here from a local server that speaks its protocol."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from command_line import run, succeed
from hub_folders import save_random
from warmstart.interop import hub_download

constants = pytest.importorskip("huggingface_hub.constants")
pytest.importorskip("transformers")

COMMIT = "c0ffee" * 6 + "c0ff"
SLOW_BYTES = 100


@dataclass
class LocalHub:
    """The files of one model, and what was asked for."""

    name: str
    folder: Path
    licence: str | None = "apache-2.0"
    extra: dict[str, bytes] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    claims: dict[str, Any] = field(default_factory=dict)  # instead of what is true
    slow: str = ""  # what is sent byte by byte, until `given_up`
    given_up: Event = field(default_factory=Event)
    url: str = ""

    def files(self) -> dict[str, bytes]:
        listed = {p.name: p.read_bytes() for p in self.folder.iterdir()} | self.extra
        return {name: content for name, content in listed.items() if name not in self.hidden}

    def info(self) -> dict[str, Any]:
        files = [{"rfilename": n, "size": len(content)} for n, content in self.files().items()]
        card = {"cardData": {"license": self.licence}} if self.licence else {}
        return {
            "id": self.name,
            "sha": COMMIT,
            "siblings": files,
            "private": False,
            **card,
            **self.claims,
        }

    def tree(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
            for n, c in self.files().items()
        ]


class Handler(BaseHTTPRequestHandler):
    hub: LocalHub

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.respond(is_head=True)

    def do_GET(self) -> None:
        self.respond(is_head=False)

    def respond(self, is_head: bool) -> None:
        path, hub = self.path.split("?")[0], self.hub
        hub.asked.append(path)
        model = f"/api/models/{hub.name}"
        content: bytes | None = None
        if path in (model, f"{model}/revision/main", f"{model}/revision/{COMMIT}"):
            content = json.dumps(hub.info()).encode()
        elif path.startswith(f"{model}/tree/"):
            content = json.dumps(hub.tree()).encode()
        elif path.startswith(f"/{hub.name}/resolve/{COMMIT}/"):
            content = hub.files().get(path.rpartition("/")[2])
        if content is not None:
            self.send(content, is_head)
        else:
            is_model = path.startswith(model)
            self.refuse("RevisionNotFound" if is_model else "RepoNotFound")

    def refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, content: bytes, is_head: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if is_head:
            return
        if self.hub.slow and self.hub.slow in self.path:
            for byte in content[:SLOW_BYTES]:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.hub.given_up.wait(0.1)
            content = content[SLOW_BYTES:]
        self.wfile.write(content)


@pytest.fixture
def local_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    folder = tmp_path / "bert"
    folder.mkdir()
    hub = LocalHub("someone/tiny-bert", save_random(folder, "bert", "BertForMaskedLM"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("HubHandler", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, daemon=True).start()
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield hub
    server.shutdown()
    server.server_close()


def test_a_model_is_imported_by_name(local_hub: LocalHub, tmp_path: Path) -> None:
    local_hub.extra = {"pytorch_model.bin": b"pickle", "README.md": b"# card"}
    done = succeed("import hf:someone/tiny-bert -o {out}", out=tmp_path / "run")
    assert "revision c0ffeec0ffee, licence apache-2.0" in done.err + done.out
    succeed("import {folder} -o {out}", folder=local_hub.folder, out=tmp_path / "same")
    here, same = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "same"))
    assert here == same
    source = json.loads((tmp_path / "run" / "config.json").read_text())["source"]
    assert source == {"name": "someone/tiny-bert", "revision": COMMIT, "licence": "apache-2.0"}
    assert "apache-2.0" in (tmp_path / "run" / "README.md").read_text()
    assert not [path for path in local_hub.asked if path.endswith((".bin", ".md"))]
    done = succeed("fill-mask {run} --text {text}", run=tmp_path / "run", text="'the [MASK]'")


def test_a_revision_can_be_named(local_hub: LocalHub, tmp_path: Path) -> None:
    succeed("import hf:someone/tiny-bert@main -o {out}", out=tmp_path / "run")
    done = run("import hf:someone/tiny-bert@v9 -o {out}", out=tmp_path / "other")
    assert done.code == 2
    assert "this revision of it does not" in done.err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("name", "hidden", "sentence"),
    [
        ("hf:someone/absent", (), "is not on the hub, or is private"),
        ("hf:tiny-bert", (), "must be hf:OWNER/NAME"),
        ("hf:someone/", (), "must be hf:OWNER/NAME"),
        ("hf:someone/tiny-bert", ("model.safetensors",), "has no safetensors weights"),
        ("hf:someone/tiny-bert", ("config.json",), "no config.json"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    local_hub: LocalHub, tmp_path: Path, name: str, hidden: tuple[str, ...], sentence: str
) -> None:
    local_hub.hidden = hidden
    done = run("import {name} -o {out}", name=name, out=tmp_path / "run")
    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


FILES = ("config.json", "model.safetensors")
LIES: tuple[dict[str, Any], ...] = (
    {"sha": "../../../../elsewhere"},
    {"siblings": [{"rfilename": name, "size": -(10**12)} for name in FILES]},
    {"siblings": [{"rfilename": name} for name in FILES]},
    {"siblings": [{"rfilename": f"{n}.json", "size": 1} for n in range(2_000)]},
)


@pytest.mark.parametrize("claims", LIES)
def test_a_hub_that_lies_writes_nothing(
    local_hub: LocalHub, tmp_path: Path, claims: dict[str, Any]
) -> None:
    weights = {"rfilename": "model.safetensors", "size": 1}
    local_hub.claims = claims
    claims.get("siblings", []).append(weights)
    before = set(tmp_path.rglob("*"))
    done = run("import hf:someone/tiny-bert -o {out}", out=tmp_path / "run")
    assert done.code == 2
    assert "gives no commit, or no size" in done.err or "2,001 files" in done.err
    assert set(tmp_path.rglob("*")) == before


def test_names_with_wildcards_are_names(local_hub: LocalHub, tmp_path: Path) -> None:
    local_hub.extra = {"*.safetensors": b"", "not-listed.safetensors": b"large"}
    listed = [*local_hub.info()["siblings"]]
    claimed = [file for file in listed if not file["rfilename"].startswith("not-listed")]
    local_hub.claims = {"siblings": claimed}
    run("import hf:someone/tiny-bert -o {out}", out=tmp_path / "run")
    assert not [path for path in local_hub.asked if "not-listed" in path]


def test_a_hub_that_does_not_answer(
    local_hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    done = run("import hf:someone/tiny-bert -o {out}", out=tmp_path / "run")
    assert done.code == 2
    assert "could not be downloaded" in done.err


@pytest.mark.parametrize("slow", ["/api/models/", "resolve"])
def test_a_hub_that_sends_byte_by_byte_is_given_up(
    local_hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr(hub_download, "PATIENCE_S", 2.0)
    monkeypatch.setattr(hub_download, "LEAST_SPEED", 10**9)
    local_hub.slow = slow
    done = run("import hf:someone/tiny-bert -o {out}", out=tmp_path / "run")
    local_hub.given_up.set()
    assert done.code == 2
    assert "did not arrive within 2" in done.err
    assert not (tmp_path / "run").exists()
