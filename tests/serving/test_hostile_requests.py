"""Requests and connections that ask for too much: each is refused, and nobody else waits for it."""

import json
import re
import signal
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, connect, head, serving


def completion(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/completions", {"model": "base", "max_tokens": 2, **fields}


def is_open(client: socket.socket) -> bool:
    """Tell whether the server has kept a connection on which it has nothing to say."""
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        client.setblocking(True)


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    try:
        while part := client.recv(1_000_000):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def takes(client: socket.socket, part: bytes, times: int, pause_s: float = 0) -> bool:
    """Tell whether the server lets a client send the same part so many times."""
    try:
        for _ in range(times):
            client.sendall(part)
            time.sleep(pause_s)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("asked", "status", "named"),
    [
        (completion(n=10**12), 413, "1,000,000,000,000 texts are too many"),
        (completion(n=10**400), 422, "n: "),
        (completion(n=200, prompt="a " * 5000), 413, "more than 1,000,000 characters"),
        (completion(stop="a" * 900_000), 422, "stop.0: "),
        (completion(stop=["a"] * 17), 422, "stop: "),
        (completion(stop=""), 422, "stop.0: "),
        (completion(temperature=float("inf")), 422, "temperature: "),
        (completion(temperature=float("nan")), 422, "temperature: "),
        (completion(max_tokens=10**400), 422, "max_tokens: "),
        (("/generate", {"temperature": float("inf")}), 422, "temperature: "),
        (("/generate", {"top_k": 10**400}), 422, "top_k: "),
        (("/translate", {"texts": ["1"], "length_penalty": float("nan")}), 422, "length_penalty: "),
        (("/translate", {"texts": ["1 2 3 " * 999] * 50, "beam": 64}), 413, "with beam 64"),
        (("/fill-mask", {"texts": ["[MASK] " * 9] * 256, "top_k": 1000}), 413, "2,304 masks"),
        (("/fill-mask", {"texts": ["[MASK]" * 150_000]}), 413, "750,000 words"),
        (("/fill-mask", {"model": "base", "texts": ["[MASK]"]}), 400, "you need a masked"),
        (("/classify", {"texts": [1] * 300_000}), 422, "texts.0: "),
        (("/classify", {"texts": ["a"], "model": "m" * 900_000}), 422, "model: "),
        (("/classify", {"texts": ["a"], "k" * 900_000: 1}), 422, "kkk…"),
        (("/embed", {"model": "base", "texts": ["a"], "layer": 10**400}), 422, "layer: "),
    ],
)
def test_what_is_too_much_is_refused_with_a_sentence(
    asked: tuple[str, dict[str, Any]], status: int, named: str, server: Server
) -> None:
    path, fields = asked
    body = json.dumps(fields).replace("Infinity", "1e400").encode()
    reply = server.post(path, body)
    assert (reply.status, named in reply.message) == (status, True), reply.body
    assert len(reply.message) <= 1001
    assert server.get("/health").status == 200


def test_the_product_of_all_sizes_is_limited(base: Path) -> None:
    with serving(f"{base} --max-texts 1000000") as server:
        asked = {"model": "base", "prompt": ["a"] * 100, "n": 100, "max_tokens": 10**9}
        reply = server.post("/v1/completions", asked)
    assert reply.status == 413
    assert "n 100 × 100 prompts × 16 tokens are 160,000 tokens" in reply.message


def test_a_seed_at_its_limit_serves_every_text(server: Server) -> None:
    path, fields = completion(n=2, seed=2**63 - 1)
    assert len(server.post(path, fields).json["choices"]) == 2


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 1e300])
def test_a_temperature_at_the_end_of_its_range_gives_a_text(
    temperature: float, server: Server
) -> None:
    path, fields = completion(temperature=temperature)
    assert server.post(path, fields).status == 200


def test_attention_says_that_a_text_was_cut(server: Server) -> None:
    body = {"model": "masked", "text": "word " * 180_000}
    whole = server.post("/attention", {**body, "text": "word"}).json
    cut = server.post("/attention", body).json
    assert (whole["truncated"], cut["truncated"]) == (0, 1)
    assert cut["tokens"] == len(cut["maps"][0]["keys"])


def test_an_invalid_host_does_not_fail_the_server(warm: Path) -> None:
    with serving(str(warm), {"WARMSTART_TOKEN": "sesame"}) as server:
        for path in ("/nowhere", "/"):
            reply = server.get(path, Host="[", Authorization="Bearer sesame")
            assert reply.status == (404 if path == "/nowhere" else 200)


@pytest.mark.parametrize("host", ["::1", "127.0.0.2"])
def test_every_address_of_this_machine_checks_the_host(host: str, warm: Path) -> None:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, 0), family=family).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with serving(f"{warm} --host {host}") as server:
        assert "everybody who can reach" not in server.process.err
        for name in (server.url.removeprefix("http://"), "localhost:80", "[::1]"):
            assert server.get("/health", Host=name).status == 200
        for name in ("evil.example", "evil.example:8000", "[::2]:80", "127.0.0.1.evil.example", ""):
            reply = server.get("/health", Host=name)
            assert (reply.status, "names of its machine" in reply.message) == (400, True)


BEGUN = (b"", b"GET /health HTTP/1.1\r\nHost: loc", head("/embed", 100) + b"{")


@pytest.mark.parametrize("sent", BEGUN)
def test_a_request_that_never_arrives_ends_its_connection(sent: bytes, base: Path) -> None:
    with serving(f"{base} --timeout 1") as server, connect(server) as client:
        client.sendall(sent)
        answer = read_all(client)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


def test_a_slow_head_ends_its_connection_even_after_an_answer(base: Path) -> None:
    with serving(f"{base} --timeout 1") as server, connect(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(10_000).startswith(b"HTTP/1.1 200")
        assert not takes(client, b"a", 600, pause_s=0.1)


def test_a_head_without_end_is_not_read(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        assert not takes(client, b"X-Filler: " + b"x" * 50_000 + b"\r\n", 1000)


@pytest.mark.parametrize("sent", BEGUN)
def test_one_address_keeps_few_connections_without_a_request(sent: bytes, base: Path) -> None:
    with serving(f"{base} --max-silent 8") as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(30)]
        for client in clients:
            client.sendall(sent)
        for client in clients[:22]:
            assert read_all(client) == b""
        assert server.post("/embed", {"texts": ["a"]}).status == 200
        assert sum(map(is_open, clients[22:])) >= 7  # the last request closed at most one


def test_silent_connections_by_the_thousand_leave_room(base: Path) -> None:
    with serving(f"{base} --max-silent 0") as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(2100)]
        assert server.post("/embed", {"texts": ["a"]}).status == 200
        assert server.get("/health").status == 200
        assert is_open(clients[-1])
        assert not is_open(clients[0])


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_in_flight_is_delivered_when_the_server_is_told_to_stop(
    is_streamed: bool, base: Path
) -> None:
    asked = {"model": "base", "prompt": "a", "n": 250, "max_tokens": 15, "stream": is_streamed}
    body = json.dumps(asked).encode()
    with serving(str(base)) as server, connect(server) as client:
        client.sendall(head("/v1/completions", len(body)) + body)
        while not server.get("/health").json["waiting"]["base"]:
            time.sleep(0.001)
        server.process.process.terminate()
        answer = read_all(client)
        ran = server.process.end()
    assert (ran.code, ran.out.startswith("stopped: ")) == (0, True)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(re.findall(rb'"finish_reason": ?"', answer)) == 250
    assert not is_streamed or b"data: [DONE]" in answer


def test_a_request_that_is_not_whole_neither_delays_the_end_nor_counts(base: Path) -> None:
    with serving(f"{base} --timeout 1000") as server, connect(server) as client:
        client.sendall(head("/embed", 100) + b"{")
        server.get("/health")
        assert server.stop() == (0, "stopped: 1 request answered")


@pytest.mark.parametrize("is_reset", [False, True])
def test_requests_that_are_sent_together_and_left_disturb_nobody(
    is_reset: bool, warm: Path
) -> None:
    body = json.dumps({"texts": ["a rather long text " * 20] * 64}).encode()
    sent = (head("/classify", len(body)) + body) * 20
    with serving(f"sentiment={warm}") as server:
        for _ in range(8):
            with connect(server) as client:
                client.sendall(sent)
                client.recv(1)  # the first answer begins; the others are never read
                if is_reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert server.post("/classify", {"texts": ["a"]}).status == 200
        ended = server.process.end(signal.SIGTERM)
    assert ended.code == 0
    assert "Traceback" not in ended.err
