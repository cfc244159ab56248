"""Load on `serve`: 64 clients, beside one-by-one calls and other servers, in one run.

All but infinity have the weights of one briefly trained model; only speed differs. The clients
share the cores with the server. Needs the dev extra. `infinity-emb` needs older libraries than
ours, which do not know this architecture: the program of another environment serves a BERT of
similar size.

    python benchmarks/serving.py --seconds 60 --clients 64 --json serving.json
    python benchmarks/serving.py --infinity other/bin/infinity_emb
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from measuring import machine
from serving_peers import OURS, Endpoint, Peer, all_peers, make_runs

import warmstart

IN_PYTHON = "one by one, in Python"  # without a server
ONE_CLIENT = "serve, one client"
NUM_CHECKED = 200
NUM_TURNS = 6  # one client and all of them, after each other: both see the same machine


@dataclass
class Load:
    """What the clients of one server saw."""

    seconds: list[float] = field(default_factory=list)  # of every answer with status 200
    statuses: dict[int, int] = field(default_factory=dict)
    elapsed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One line of the report."""

    server: str
    work: str
    texts: str  # short or mixed
    rate: float  # answers per second
    gain: float  # over the calls of one client, one by one
    p50_ms: float
    p99_ms: float
    statuses: dict[int, int]

    @classmethod
    def of(cls, server: str, case: tuple[str, str], load: Load, alone: float) -> "Measured":
        """Return the figures of a load, beside the rate of one client."""
        rate = len(load.seconds) / load.elapsed_s
        p50, p99 = (1000 * float(np.percentile(load.seconds, share)) for share in (50, 99))
        names = {"server": server, "work": case[0], "texts": case[1]}
        times = {"rate": rate, "gain": rate / alone, "p50_ms": p50, "p99_ms": p99}
        return cls(**names, **times, statuses=load.statuses)

    @property
    def errors(self) -> dict[int, int]:
        """Return how often each status came that is neither an answer nor back-pressure."""
        return {status: num for status, num in self.statuses.items() if status not in (200, 429)}

    def __str__(self) -> str:
        return (
            f"{self.server:24}{self.work:10}{self.texts:7}{self.rate:8.1f}/s "
            f"{self.gain:6.2f} x one client   p50 {self.p50_ms:7.1f} ms   "
            f"p99 {self.p99_ms:7.1f} ms   429: {self.statuses.get(429, 0)}   "
            f"errors: {self.errors or 0}"
        )


@dataclass(frozen=True)
class Target:
    """Where clients send texts."""

    port: int
    endpoint: Endpoint
    texts: Sequence[str]


async def call(streams: Any, target: Target, text: str) -> tuple[int, bytes]:
    """Send one request on an open connection and return status and body."""
    reader, writer = streams
    body = json.dumps({target.endpoint.key: [text]}).encode()
    head = f"POST {target.endpoint.path} HTTP/1.1\r\nHost: localhost\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(f"{head}{kind}".encode() + body)
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


async def measure(target: Target, num_clients: int, seconds: float, load: Load) -> None:
    """Add what so many clients see at once."""
    texts, started = cycle(target.texts), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(client(target, texts, started + seconds, load))
    load.elapsed_s += time.perf_counter() - started


def mixed_texts(folder: Path) -> dict[str, list[str]]:
    """Return sentences, and texts of one to twelve sentences."""
    reviews = (folder / "unlabelled.txt").read_text(encoding="utf-8").splitlines()
    sentences = [s for review in reviews for s in re.findall(r"[^.!?]+[.!?]", review)]
    sizes = cycle((1, 2, 12, 1, 4, 3, 8, 1))
    mixed = [
        " ".join(sentences[at : at + size]) for at, size in zip(range(800), sizes, strict=False)
    ]
    return {"short": sentences[:800], "mixed": mixed}


def one_by_one(function: Callable[[list[str]], Any], texts: Sequence[str], seconds: float) -> Load:
    """Return what calls of a loaded model take, one text at a time."""
    function([texts[0]])
    load, started = Load(), time.perf_counter()
    for text in cycle(texts):
        before = time.perf_counter()
        if before - started >= seconds:
            break
        function([text])
        load.seconds.append(time.perf_counter() - before)
    load.elapsed_s = time.perf_counter() - started
    return load


async def check(port: int, model: Any, texts: Sequence[str]) -> dict[str, float]:
    """Return the largest differences to `predict` and `embed`; labels must be equal."""
    answers: dict[str, list[Any]] = {}
    streams = await asyncio.open_connection("127.0.0.1", port)
    for path, key in (("/classify", "predictions"), ("/embed", "vectors")):
        target = Target(port, Endpoint(path), texts)
        replies = [json.loads((await call(streams, target, text))[1]) for text in texts]
        answers[key] = [reply[key][0] for reply in replies]
    expected = model.predict(texts)
    assert [one["label"] for one in answers["predictions"]] == [one.label for one in expected]
    pairs = zip(answers["predictions"], expected, strict=True)
    shares = [abs(one["probability"] - exact.probability) for one, exact in pairs]
    vectors = np.abs(np.array(answers["vectors"]) - np.array(model.embed(texts)))
    return {"probabilities": max(shares), "vectors": float(vectors.max())}


def load_peer(
    peer: Peer, texts: dict[str, list[str]], case: tuple[str, str], seconds: dict[int, float]
) -> dict[int, Load]:
    """Start a server, warm it up, and return what each number of clients sees, in turns."""
    work, kind = case
    loads = {clients: Load() for clients in seconds}
    with peer.started() as port:
        target = Target(port, peer.endpoints[work], texts[kind])
        asyncio.run(measure(target, 1, 1.0, Load()))
        for clients in NUM_TURNS * list(seconds):
            asyncio.run(measure(target, clients, seconds[clients] / NUM_TURNS, loads[clients]))
    return loads


def report(folder: Path, options: argparse.Namespace) -> None:
    """Measure every system on every kind of text, all systems after each other in each case."""
    run = make_runs(folder)
    texts, peers = mixed_texts(folder), all_peers(folder, options.infinity)
    model = warmstart.load(run)
    with peers[0].started() as port:
        differences = asyncio.run(check(port, model, texts["mixed"][:NUM_CHECKED]))
    shown = ", ".join(f"{name} differ by {worst:.1e}" for name, worst in differences.items())
    print(f"{NUM_CHECKED} labels of {OURS} equal those of predict; {shown}", flush=True)
    functions = {"classify": model.predict, "embed": model.embed}
    found: list[Measured] = []
    for case in [(work, kind) for work in functions for kind in texts]:
        work, kind = case
        few_s = options.seconds / 4
        loads = {IN_PYTHON: one_by_one(functions[work], texts[kind], few_s)}
        asked = {1: few_s, options.clients: options.seconds}
        ours = load_peer(peers[0], texts, case, asked)
        loads |= {ONE_CLIENT: ours[1], OURS: ours[options.clients]}
        alone = len(loads[ONE_CLIENT].seconds) / loads[ONE_CLIENT].elapsed_s
        for peer in (peer for peer in peers[1:] if work in peer.endpoints):
            asked = {options.clients: options.seconds}
            loads[peer.name] = load_peer(peer, texts, case, asked)[options.clients]
        lines = [Measured.of(name, case, load, alone) for name, load in loads.items()]
        print(*lines, sep="\n", flush=True)
        found += lines
    if options.json:
        settings = {"clients": options.clients, "seconds": options.seconds}
        content = {"machine": machine(), **settings, "differences": differences}
        content["measured"] = [asdict(line) for line in found]
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if any(line.errors for line in found if line.server == OURS):
        sys.exit(f"{OURS} answered with another status than 200 and 429")


def main() -> None:
    """Parse, measure, print."""
    if "GOMP_SPINCOUNT" not in os.environ:  # read when torch is loaded; the command line sets it
        os.environ["GOMP_SPINCOUNT"] = "2000"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--infinity", help="program infinity_emb, to be measured too")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    with tempfile.TemporaryDirectory(prefix="warmstart-serving-") as folder:
        report(Path(folder), parser.parse_args())


if __name__ == "__main__":
    main()
