"""The servers that `serving.py` puts under load: ours and others, with the weights of one run."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import warmstart
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.model import PRESETS

SIZES = SampleSizes(
    unlabelled=2000, train=64, valid=32, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
OURS = "warmstart serve"
START_S = 90
PLAIN_SERVER = """
import sys, torch, uvicorn
from fastapi import FastAPI
from transformers import pipeline
classify = pipeline("text-classification", model=sys.argv[1], top_k=None, device="cpu")
embed = pipeline("feature-extraction", model=sys.argv[1], device="cpu", return_tensors=True)
app = FastAPI()
@app.post("/classify")
def _(body: dict): return {"predictions": classify(body["texts"], truncation=True)}
@app.post("/embed")
def _(body: dict):
    texts = embed(body["texts"], tokenize_kwargs={"truncation": True})
    return {"vectors": [text[0].mean(0).tolist() for text in texts]}
uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


@dataclass(frozen=True)
class Endpoint:
    """Where texts are sent, and under which key."""

    path: str
    key: str = "texts"


@dataclass(frozen=True)
class Peer:
    """A server: its command without the port, and what it answers."""

    name: str
    command: tuple[str, ...]
    endpoints: Mapping[str, Endpoint]

    @contextmanager
    def started(self) -> Iterator[int]:
        """Start the server and yield its port once it accepts connections."""
        port = free_port()
        null = subprocess.DEVNULL
        process = subprocess.Popen([*self.command, str(port)], stdout=null, stderr=null)
        try:
            self.wait(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()

    def wait(self, port: int, process: subprocess.Popen[bytes]) -> None:
        """Return when somebody listens."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"{self.name} did not start: {' '.join(self.command)} {port}")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def make_runs(folder: Path) -> Path:
    """Train a classifier for a few steps; what it learns does not matter here."""
    files = write_samples(folder, sizes=SIZES)
    warmstart.pretrain(files=[files.unlabelled], out=folder / "base", preset="mini", steps=2)
    warmstart.finetune(
        from_run=folder / "base",
        train=files.train,
        valid=files.valid,
        out=folder / "classifier",
        epochs=1,
    )
    warmstart.export_model(run=folder / "classifier", to="hf", out=folder / "classifier-hf")
    return folder / "classifier"


def make_bert(folder: Path) -> Path:
    """Train a BERT of the same size, for servers that do not know newer architectures."""
    mini = PRESETS["mini"]
    sizes = {name: getattr(mini, name) for name in ("width", "depth", "heads", "max_length")}
    sizes["ffn_width"] = mini.ffn_width * 3 // 2  # two matrices with the parameters of three
    text = [folder / "unlabelled.txt"]
    warmstart.pretrain(files=text, out=folder / "bert", preset="bert-base", steps=2, **sizes)
    warmstart.export_model(run=folder / "bert", to="hf", out=folder / "bert-hf")
    return folder / "bert-hf"


def all_peers(folder: Path, infinity: str | None) -> list[Peer]:
    """Return the servers to measure, ours first."""
    plain = folder / "plain.py"
    plain.write_text(PLAIN_SERVER, encoding="utf-8")
    own = {"classify": Endpoint("/classify"), "embed": Endpoint("/embed")}
    serve = (sys.executable, "-m", "warmstart", "serve", str(folder / "classifier"), "--port")
    pipeline = (sys.executable, str(plain), str(folder / "classifier-hf"))
    peers = [Peer(OURS, serve, own), Peer("FastAPI + transformers", pipeline, own)]
    if infinity:
        options = "--engine torch --device cpu --dtype float32 --no-bettertransformer --port"
        model = ("v2", "--model-id", str(make_bert(folder)), *options.split())
        endpoints = {"embed": Endpoint("/embeddings", "input")}
        peers.append(Peer("infinity, a BERT", (infinity, *model), endpoints))
    return peers
