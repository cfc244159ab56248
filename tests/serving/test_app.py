"""Clients that leave, stall or lie, a server that is told to stop: nothing accepted is lost."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warmstart
from http_server import Reply, Server, connect, head, serving


def wait_until_idle(server: Server) -> None:
    for _ in range(600):
        if not any(server.get("/health").json["waiting"].values()):
            return
        time.sleep(0.05)
    raise AssertionError(server.get("/health").json)


def test_a_client_that_leaves_harms_nobody(server: Server) -> None:
    streamed = json.dumps({"model": "base", "max_tokens": 12, "stream": True}).encode()
    asked = json.dumps({"model": "sentiment", "texts": ["a long text " * 50] * 200}).encode()
    for path, body in (("/generate", streamed), ("/classify", asked)) * 3:
        with connect(server) as client:
            client.sendall(head(path, len(body)) + body)
    with connect(server) as client:
        client.sendall(head("/classify", 10_000) + b'{"texts"')  # leaves in the middle
    wait_until_idle(server)
    assert server.post("/classify", {"texts": ["a"]}).status == 200


def test_a_client_that_reads_nothing_does_not_stop_the_others(server: Server) -> None:
    body = json.dumps({"model": "base", "texts": ["word"] * 200}).encode()
    with connect(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.sendall(head("/embed", len(body)) + body)
        for _ in range(5):
            assert server.post("/embed", {"model": "base", "texts": ["a"]}).status == 200


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_of_50_megabytes_is_refused(is_announced: bool, server: Server) -> None:
    with connect(server) as client:
        if is_announced:
            client.sendall(head("/classify", 50_000_000))
            chunks = [b"x" * 1_000_000] * 50
        else:
            client.sendall(
                head("/classify", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            )
            chunks = [b"%x\r\n%s\r\n" % (1_000_000, b"x" * 1_000_000)] * 50 + [b"0\r\n\r\n"]
        for chunk in chunks:
            client.sendall(chunk)
        answer = ""
        while "}}" not in answer:
            part = client.recv(10_000).decode()
            assert part, answer
            answer += part
    assert answer.startswith("HTTP/1.1 413")
    assert "larger than 1,000,000 bytes" in answer
    assert server.post("/classify", {"texts": ["a"]}).status == 200


def test_a_wrong_token_is_refused(warm: Path) -> None:
    origin = "https://app.example"
    with serving(f"{warm} --allow-origin {origin}", {"WARMSTART_TOKEN": "sésame"}) as server:
        body = {"texts": ["a"]}
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s"}):
            reply = server.post("/classify", body, **header)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == "Bearer"
            assert "needs a token" in reply.message
        token = "Bearer sésame".encode().decode("latin-1")
        assert server.post("/classify", body, Authorization=token).status == 200
        allowed = server.get("/health", Origin=origin).headers["access-control-allow-origin"]
        assert allowed == origin
        other = server.get("/health", Origin="https://evil.example")
        assert other.headers["access-control-allow-origin"] is None
        assert server.get("/metrics").status == 401
        assert server.get("/health").status == 200


def test_slow_bodies_and_full_queues_are_refused(base: Path) -> None:
    limits = "--timeout 2 --max-queue 4 --max-texts 3"
    with serving(f"{base} {limits}") as server:
        with connect(server) as client:
            client.sendall(head("/embed", 100) + b"{")
            assert client.recv(10_000).startswith(b"HTTP/1.1 408")
        body = {"texts": ["a text " * 20] * 3}
        with ThreadPoolExecutor(24) as pool:
            replies = list(pool.map(lambda _: server.post("/embed", body), range(96)))
        statuses = {reply.status for reply in replies}
        assert statuses == {200, 429}
        refused = next(reply for reply in replies if reply.status == 429)
        assert refused.headers["retry-after"] == "1"
        assert "waiting for base" in refused.message


def test_nothing_accepted_is_lost_when_it_is_told_to_stop(warm: Path) -> None:
    texts = ["A fine book.", "Dull and long. " * 3, "Bad."]
    expected = [p.label for p in warmstart.load(warm, threads=1).predict(texts)]
    replies: list[Any] = []

    def ask(server: Server) -> None:
        while True:
            try:
                replies.append(server.post("/classify", {"texts": texts}))
            except ConnectionRefusedError:
                return  # it does not accept any more
            except OSError as error:
                if isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                    return
                replies.append(error)
                return

    with serving(str(warm)) as server:
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        while len(replies) < 200:
            time.sleep(0.01)
        code, said = server.stop()
        for thread in threads:
            thread.join()
    assert code == 0
    answered = [reply for reply in replies if isinstance(reply, Reply) and reply.status == 200]
    assert said == f"stopped: {len(answered):,} requests answered"
    for reply in answered:
        assert [one["label"] for one in reply.json["predictions"]] == expected
    # What was not answered was never read: its connection waited when the server closed.
    assert all(isinstance(reply, OSError) for reply in replies if reply not in answered)
