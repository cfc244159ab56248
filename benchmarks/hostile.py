"""Well-behaved clients of `serve`, without and beside 200 hostile connections, in turns.

A fifth of the connections each: say nothing; send half a head; send a body byte by byte; ask for
sizes beyond every limit; send much work and leave. A connection that the server closes is opened
again. All share the cores, and the address, with the well-behaved clients.

    python benchmarks/hostile.py --seconds 60 --rounds 3
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Ratio, add_json_option, in_turns, report
from serving_peers import all_peers, make_runs

from serving import Load, Target, measure, mixed_texts

CONTEXT = multiprocessing.get_context("spawn")
NUM_CLIENTS = 16
PAUSE_S = 0.5  # between two bytes of a slow body, and two requests of one hostile client
AIM = 3.0  # times the 99th percentile without hostile clients, at most


def request(path: str, values: Any) -> bytes:
    """Return a request with a JSON body."""
    body = json.dumps(values).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# Written once: the attackers share the cores, and should take little of them.
OVERSIZED = (
    request("/v1/completions", {"model": "classifier", "n": 10**12}),
    request("/v1/completions", {"model": "classifier", "stop": "a" * 900_000}),
    request("/fill-mask", {"texts": ["[MASK] " * 60] * 256, "top_k": 1000}),
    request("/classify", {"texts": [1] * 300_000}),
    request("/generate", {"temperature": 1e400}),
    request("/classify", {"texts": ["a"] * 5000}),
)
SLOW = request("/classify", {"texts": ["a" * 1000]})
LARGE = request("/classify", {"texts": ["a rather long text " * 50] * 256})


async def say_nothing(reader: Any, writer: Any) -> None:
    """Wait until the server closes."""
    await reader.read(-1)


async def begin_a_head(reader: Any, writer: Any) -> None:
    """Send half of a head."""
    writer.write(b"POST /classify HTTP/1.1\r\nHost: loc")
    await reader.read(-1)


async def drip(reader: Any, writer: Any) -> None:
    """Send a body byte by byte."""
    writer.write(SLOW[:-900])
    for byte in SLOW[-900:]:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(PAUSE_S)


async def ask_for_too_much(reader: Any, writer: Any) -> None:
    """Send one request of each kind that is refused."""
    for oversized in OVERSIZED:
        writer.write(oversized)
        await writer.drain()
        await reader.readuntil(b"}}")
        await asyncio.sleep(PAUSE_S)


async def leave(reader: Any, writer: Any) -> None:
    """Ask for much, and leave before the answer."""
    writer.write(LARGE)
    await writer.drain()
    await asyncio.sleep(PAUSE_S)


KINDS = (say_nothing, begin_a_head, drip, ask_for_too_much, leave)


async def repeat(behave: Any, port: int) -> None:
    """Behave in one way, on one connection after the other."""
    while True:
        with suppress(OSError, EOFError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await behave(reader, writer)
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


def attack(port: int, num_connections: int, is_ready: Any) -> None:
    """Keep hostile connections open until the process is ended."""

    async def run() -> None:
        behaviours = [KINDS[number % len(KINDS)] for number in range(num_connections)]
        async with asyncio.TaskGroup() as group:
            for behave in behaviours:
                group.create_task(repeat(behave, port))
            await asyncio.sleep(PAUSE_S)
            is_ready.set()

    asyncio.run(run())


@contextmanager
def hostile(port: int, num_connections: int) -> Iterator[None]:
    """Inside the block, others attack the server."""
    is_ready = CONTEXT.Event()
    process = CONTEXT.Process(target=attack, args=(port, num_connections, is_ready), daemon=True)
    process.start()
    is_ready.wait()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def p99_ms(target: Target, seconds: float) -> float:
    """Return the 99th percentile of the time of an answer to well-behaved clients."""
    load = Load()
    asyncio.run(measure(target, NUM_CLIENTS, seconds, load))
    if set(load.statuses) != {200}:
        raise RuntimeError(f"a well-behaved client was turned away: {load.statuses}")
    print(f"{len(load.seconds) / load.elapsed_s:8.1f} answers/s", flush=True)
    return 1000 * float(np.percentile(load.seconds, 99))


def compare(folder: Path, options: argparse.Namespace) -> Ratio:
    """Measure both in turns on one server."""
    make_runs(folder)
    peer, texts = all_peers(folder, None)[0], mixed_texts(folder)["short"]
    seconds = options.seconds / options.rounds
    with peer.started() as port:
        target = Target(port, peer.endpoints["classify"], texts)

        def attacked() -> float:
            with hostile(port, options.connections):
                return p99_ms(target, seconds)

        rounds = in_turns(attacked, lambda: p99_ms(target, seconds), options.rounds)
    work = f"{NUM_CLIENTS} clients beside {options.connections} hostile connections"
    return Ratio.of(work, "ms, 99th percentile", "without them", rounds)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of attack, in all rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=200)
    add_json_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warmstart-hostile-") as folder:
        ratio = compare(Path(folder), options)
    report([ratio], options.json)
    print(f"\n{ratio.ratio:.2f} times the time without them; the aim is at most {AIM:g}")


if __name__ == "__main__":
    main()
