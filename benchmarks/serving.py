"""Load on `serve`: 64 clients, beside one-by-one calls and a plain FastAPI with `transformers`.

All three have the weights of one briefly trained classifier; only speed differs. The clients share
the cores with the server. Needs the dev extra.

    python benchmarks/serving.py --seconds 60 --clients 64
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import warmstart
from warmstart.samples.sample_files import SampleSizes, write_samples

SIZES = SampleSizes(
    unlabelled=2000, train=64, valid=32, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
ONE_BY_ONE_S = 5.0
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
print("serving on http://127.0.0.1:" + sys.argv[2] + ";", file=sys.stderr, flush=True)
uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


@dataclass
class Load:
    """What the clients of one server saw."""

    seconds: list[float] = field(default_factory=list)  # of every answer with status 200
    statuses: dict[int, int] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @property
    def rate(self) -> float:
        """Return the answers per second."""
        return len(self.seconds) / self.elapsed_s

    def describe(self) -> str:
        """Return rate, latency and errors."""
        p50, p99 = (1000 * np.percentile(self.seconds, share) for share in (50, 99))
        others = {status: num for status, num in self.statuses.items() if status != 200}
        return f"{self.rate:8.1f}/s   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   errors {others or 0}"


@dataclass(frozen=True)
class Target:
    """Where clients send texts."""

    port: int
    path: str
    texts: Sequence[str]


async def call(streams: Any, target: Target, text: str) -> tuple[int, bytes]:
    """Send one request on an open connection and return status and body."""
    reader, writer = streams
    body = json.dumps({"texts": [text]}).encode()
    head = f"POST {target.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(re.findall(r"(?i)content-length: (\d+)", answer)[0])
    return int(answer.split()[1]), await reader.readexactly(length)


async def client(target: Target, texts: Iterator[str], until: float, load: Load) -> None:
    """Ask without pause until the time is over."""
    streams = await asyncio.open_connection("127.0.0.1", target.port)
    while time.perf_counter() < until:
        started = time.perf_counter()
        status, _ = await call(streams, target, next(texts))
        load.statuses[status] = load.statuses.get(status, 0) + 1
        if status == 200:
            load.seconds.append(time.perf_counter() - started)
    streams[1].close()


async def measure(target: Target, num_clients: int, seconds: float) -> Load:
    """Return what so many clients see at once."""
    load, texts = Load(), cycle(target.texts)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(client(target, texts, started + seconds, load))
    load.elapsed_s = time.perf_counter() - started
    return load


@contextmanager
def started(arguments: Sequence[object]) -> Iterator[int]:
    """Start a server and yield its port."""
    command = [sys.executable, *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        lines = (re.search(r"serving on http://127.0.0.1:(\d+);", line) for line in process.stderr)
        port = next(int(found[1]) for found in lines if found)
        while True:  # a plain server announces itself before it listens
            try:
                asyncio.run(_connect(port))
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.communicate()


async def _connect(port: int) -> None:
    (await asyncio.open_connection("127.0.0.1", port))[1].close()


def make_run(folder: Path) -> Path:
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
    warmstart.export_model(run=folder / "classifier", to="hf", out=folder / "hf")
    return folder / "classifier"


def mixed_texts(folder: Path) -> dict[str, list[str]]:
    """Return sentences, and texts of one to twelve sentences."""
    reviews = (folder / "unlabelled.txt").read_text(encoding="utf-8").splitlines()
    sentences = [s for review in reviews for s in re.findall(r"[^.!?]+[.!?]", review)]
    sizes = cycle((1, 2, 12, 1, 4, 3, 8, 1))
    mixed = [
        " ".join(sentences[at : at + size]) for at, size in zip(range(800), sizes, strict=False)
    ]
    return {"short": sentences[:800], "mixed": mixed}


def one_by_one(function: Callable[[list[str]], Any], texts: Sequence[str]) -> float:
    """Return calls per second of a loaded model, one text at a time."""
    function([texts[0]])
    started, num = time.perf_counter(), 0
    while time.perf_counter() - started < ONE_BY_ONE_S:
        function([texts[num % len(texts)]])
        num += 1
    return num / (time.perf_counter() - started)


async def check(port: int, model: Any, texts: Sequence[str]) -> float:
    """Return the largest difference of a probability to that of `predict`."""
    target = Target(port, "/classify", texts)
    streams = await asyncio.open_connection("127.0.0.1", port)
    answers = [json.loads((await call(streams, target, text))[1]) for text in texts]
    found = [answer["predictions"][0] for answer in answers]
    expected = model.predict(texts)
    assert [one["label"] for one in found] == [one.label for one in expected]
    return max(
        abs(one["probabilities"][name] - share)
        for one, exact in zip(found, expected, strict=True)
        for name, share in exact.probabilities.items()
    )


def report(folder: Path, arguments: argparse.Namespace) -> None:
    """Measure every system on every kind of text."""
    run = make_run(folder)
    texts = mixed_texts(folder)
    model = warmstart.load(run)
    functions = {"/classify": model.predict, "/embed": model.embed}
    cases = [(path, kind) for path in functions for kind in texts]
    alone = {(path, kind): one_by_one(functions[path], texts[kind]) for path, kind in cases}
    plain = folder / "plain.py"
    plain.write_text(PLAIN_SERVER, encoding="utf-8")
    servers: dict[str, list[object]] = {
        "warmstart serve": ["-m", "warmstart", "serve", run, "--port", 0],
        "FastAPI + transformers": [plain, folder / "hf", 8765],
    }
    for name, command in servers.items():
        with started(command) as port:
            if name == "warmstart serve":
                worst = asyncio.run(check(port, model, texts["mixed"][:200]))
                print(f"200 labels equal those of predict; probabilities differ by {worst:.1e}")
            for path, kind in cases:
                target = Target(port, path, texts[kind])
                load = asyncio.run(measure(target, arguments.clients, arguments.seconds))
                gain = load.rate / alone[path, kind]
                line = f"{name:24}{path:10}{kind:6}{load.describe()}   {gain:5.2f} x one by one"
                print(line, flush=True)
    for (path, kind), rate in alone.items():
        print(f"{'one by one, in Python':24}{path:10}{kind:6}{rate:8.1f}/s")


def main() -> None:
    """Parse, measure, print."""
    if "GOMP_SPINCOUNT" not in os.environ:  # read when torch is loaded; the command line sets it
        os.environ["GOMP_SPINCOUNT"] = "2000"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--clients", type=int, default=64)
    with tempfile.TemporaryDirectory(prefix="warmstart-serving-") as folder:
        report(Path(folder), parser.parse_args())


if __name__ == "__main__":
    main()
