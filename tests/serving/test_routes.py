"""Every verb over HTTP answers like the loaded run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import World, succeed
from http_server import Server, connect

TEXTS = ["A fine book.", "Dull, and far too long for what it says about anything at all.", "x"]


def load(run: Path) -> Any:
    return warmstart.load(run, threads=1, precision="fp32")


def test_classify_is_what_predict_prints(server: Server, warm: Path, world: World) -> None:
    texts = world.texts.read_text(encoding="utf-8").splitlines()[:40]
    answer = server.post("/classify", {"model": "sentiment", "texts": texts}).json
    printed = succeed(
        f"predict {warm} --json --precision fp32 --threads 1", "\n".join(texts).encode()
    )
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [p["label"] for p in answer["predictions"]] == [line["label"] for line in lines]
    for prediction, line in zip(answer["predictions"], lines, strict=True):
        assert prediction["probabilities"] == pytest.approx(line["probabilities"], abs=1e-6)
    assert answer["model"] == "sentiment"
    assert answer["tokens"] > len(texts)


def test_explanations_are_those_of_the_run(server: Server, warm: Path) -> None:
    body = {"model": "sentiment", "texts": TEXTS, "explain": True}
    answer = server.post("/classify", body).json
    for found, expected in zip(answer["predictions"], load(warm).explain(TEXTS), strict=True):
        assert found["label"] == expected.prediction.label
        words = found.get("words", [])
        assert [word["text"] for word in words] == [word.text for word in expected.words]
        weights = [word.weight for word in expected.words]
        assert [word["weight"] for word in words] == pytest.approx(weights, abs=1e-5)
        assert all(set(word["without"]["probabilities"]) == set(found["probabilities"])
                   for word in words)  # fmt: skip


def test_truncated_texts_are_counted(server: Server) -> None:
    answer = server.post("/classify", {"texts": ["short", "word " * 60]}).json
    assert answer["truncated"] == 1


@pytest.mark.parametrize("options", [{}, {"pooling": "last", "normalize": True}, {"layer": 0}])
def test_embed_is_the_vectors_of_the_run(
    options: dict[str, Any], server: Server, masked: Path
) -> None:
    answer = server.post("/embed", {"model": "masked", "texts": TEXTS, **options}).json
    np.testing.assert_allclose(answer["vectors"], load(masked).embed(TEXTS, **options), atol=1e-5)


def test_fill_mask_is_what_the_run_fills(server: Server, masked: Path) -> None:
    texts = ["A [MASK] book.", "The <mask> is <mask>."]
    answer = server.post("/fill-mask", {"texts": texts, "top_k": 3}).json
    expected = [asdict(text) for text in load(masked).fill_mask(texts, top_k=3)]
    for found, text in zip(answer["texts"], expected, strict=True):
        assert found["text"] == text["text"]
        assert [len(choices) for choices in found["masks"]] == [3] * len(text["masks"])


def test_translate_is_what_the_run_translates(server: Server, beginner: Path) -> None:
    texts = ["1 2 3", "4 5", ""]
    answer = server.post("/translate", {"texts": texts, "beam": 3, "n_best": 2}).json
    expected = load(beginner).translate(texts, beam=3, n_best=2)
    found = [[one["text"] for one in best] for best in answer["translations"]]
    assert found == [[one.text for one in best] for best in expected]


def test_generate_with_a_seed_is_what_the_run_generates(server: Server, base: Path) -> None:
    body = {"prompt": "This book", "max_tokens": 6, "temperature": 0, "seed": 3}
    answer = server.post("/generate", body).json
    assert "This book" + answer["text"] == load(base).generate("This book", max_tokens=6)
    assert answer["end"] == "length"
    options = {"max_tokens": 6, "temperature": 2.0, "top_k": 50, "top_p": 0.9, "seed": 3}
    answer = server.post("/generate", {"prompt": "This book", **options}).json
    assert "This book" + answer["text"] == load(base).generate("This book", **options)
    sampled = {**body, "temperature": 1.5}
    texts = {server.post("/generate", sampled).json["text"] for _ in range(3)}
    assert len(texts) == 1
    sampled.pop("seed")
    assert len({server.post("/generate", sampled).json["text"] for _ in range(5)}) > 1


def test_a_stream_has_the_same_text(server: Server) -> None:
    body = {"prompt": "This book", "max_tokens": 6, "seed": 3}
    whole = server.post("/generate", body).json
    streamed = server.post("/generate", {**body, "stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in streamed.body.decode().split("\n\n") if line]
    assert "".join(event["text"] for event in events) == whole["text"]
    assert events[-1]["end"] == whole["end"]


@pytest.mark.parametrize("words", [False, True])
def test_attention_is_that_of_the_run(words: bool, server: Server, masked: Path) -> None:
    body = {"model": "masked", "text": TEXTS[0], "words": words}
    found = server.post("/attention", body).json["maps"]
    expected = load(masked).attention(TEXTS[0])["self"]
    expected = expected.by_word() if words else expected
    assert [one["part"] for one in found] == ["self"]
    np.testing.assert_allclose(found[0]["weights"], expected.weights, atol=1e-4)
    assert len(found[0]["keys"]) == len(expected.keys)


def test_a_translator_has_three_parts_of_attention(server: Server) -> None:
    found = server.post("/attention", {"model": "fr", "text": "1 2 3"}).json["maps"]
    assert [one["part"] for one in found] == ["encoder", "decoder", "cross"]


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/classify", {"model": "masked", "texts": ["a"]}, 400, "masked is a masked language"),
        ("/classify", {"model": "sentimant", "texts": ["a"]}, 404, "did you mean 'sentiment'?"),
        ("/embed", {"texts": ["a"]}, 422, "model is missing: it can be base, masked, sentiment"),
        ("/classify", {"texts": []}, 422, "texts: "),
        ("/classify", {"texts": "a"}, 422, "texts: "),
        ("/classify", {"texts": ["a"], "text": "b"}, 422, "text: "),
        ("/classify", {"texts": ["a"], "texts2": ["b"]}, 400, "was trained on single texts"),
        ("/classify", {"texts": ["a", "b"], "texts2": ["c"]}, 422, "2 texts but 1 second texts"),
        ("/classify", {"texts": ["a"] * 257}, 413, "257 texts are too many"),
        ("/classify", {"texts": ["a " * 129] * 2, "explain": True}, 413, "258 texts are too many"),
        ("/classify", {"texts": ["a " * 9_000], "explain": True}, 413, "4,000,000 characters"),
        ("/classify", {"model": "masked", "texts": ["a"], "explain": True}, 400, "masked is a"),
        ("/fill-mask", {"texts": ["no mask"]}, 400, "has no masked word"),
        ("/embed", {"model": "base", "texts": ["a"], "layer": 9}, 400, "out of range"),
        ("/generate", {"prompt": "word " * 60}, 400, "this model reads 16"),
        ("/generate", {"temperature": -1}, 422, "temperature: "),
        ("/generate", {"beams": 9}, 422, "beams: "),
        ("/v1/embeddings", {"model": "base", "input": "a", "pooling": "cls"}, 422, "pooling: "),
        ("/v1/completions", {"model": "base", "stream_options": {"usage": 1}}, 422, "usage: "),
        ("/translate", {"texts": ["1"], "beam": 1, "n_best": 2}, 400, "n_best 2"),
        ("/classify", b'{"texts": ["a"', 400, "not valid JSON"),
        ("/classify", b'{"texts": ["\\ud800"]}', 400, "not valid JSON"),
        ("/classify", b"\xff\xfe", 400, ""),
        ("/bake", {}, 404, "/bake"),
    ],
)
def test_refusals_are_one_sentence(
    path: str, body: Any, status: int, named: str, server: Server
) -> None:
    reply = server.post(path, body)
    assert (reply.status, named in reply.message) == (status, True), reply.body
    assert "/tmp" not in reply.message  # where runs are stored is nobody's business


def test_a_body_that_is_not_announced_as_json_is_refused(server: Server) -> None:
    body = b'{"texts": ["a"]}'
    reply = server.post("/classify", body, **{"Content-Type": "text/plain"})
    assert (reply.status, "not text/plain" in reply.message) == (415, True)
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert server.post("/classify", body, **charset).status == 200
    assert server.get("/classify").status == 405


def test_health_and_metrics(server: Server) -> None:
    server.post("/classify", {"texts": ["a", "b"]})
    health = server.get("/health").json
    assert health["status"] == "ok"
    assert set(health["waiting"]) == {"base", "masked", "sentiment", "fr"}
    lines = server.get("/metrics").body.decode().splitlines()
    count = 'warmstart_requests_total{path="/classify",status="200"}'
    assert any(line.startswith(count) for line in lines)
    assert 'warmstart_waiting_texts{model="sentiment"} 0.0' in lines
    server.get("/invented/path")
    assert "invented" not in server.get("/metrics").body.decode()


def test_the_documentation_names_every_route_and_loads_nothing(server: Server) -> None:
    paths = server.get("/openapi.json").json["paths"]
    page = server.get("/docs").body.decode()
    assert {"/classify", "/generate", "/v1/embeddings", "/health", "/metrics"} <= set(paths)
    assert all(path in page for path in paths)
    assert paths["/v1/models/{name}"]["get"]["parameters"][0]["name"] == "name"
    assert "http://" not in page
    assert "https://" not in page


def test_other_names_of_this_machine_are_refused(server: Server) -> None:
    assert server.get("/health", Host="evil.example").status == 400
    with connect(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    reply = server.get("/health", Origin="https://evil.example")
    assert "access-control-allow-origin" not in {name.lower() for name in reply.headers}
