"""Requests that wait are computed together, within a budget, and never harm each other."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.testclient import TestClient

from warmstart.errors import WarmstartError
from warmstart.serving import worker as module
from warmstart.serving.app import create_app
from warmstart.serving.commands import ServeConfig
from warmstart.serving.responses import RefusedError
from warmstart.serving.service import Service
from warmstart.serving.worker import Call, Worker
from warmstart.tasks.text_model import GeneratedPiece, TextModel, TextSize

PREDICT = Call("predict")


class Panic(BaseException):
    """What no handler of errors catches, as a panic in a library's Rust code."""


@dataclass(frozen=True, kw_only=True)
class Echo(TextModel):
    """A model that answers with the text, once it is allowed to; `bad` texts fail."""

    name: str = "echo"
    description: str = "an echo"
    is_allowed: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)

    def predict(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[Any]:
        self.is_allowed.wait(20)
        self.batches.append(list(texts))
        if "fatal" in texts:
            raise Panic
        if "bad" in texts:
            raise WarmstartError("a bad text")
        return [*texts] if texts2 is None else [*zip(texts, texts2, strict=True)]

    def stream(self, prompt: str, max_tokens: int) -> Iterator[GeneratedPiece]:
        for number in range(max_tokens):
            yield GeneratedPiece(f"{prompt}{number}")
        yield GeneratedPiece("", "length")


@pytest.fixture
def model() -> Echo:
    return Echo()


async def started(worker: Worker, model: Echo) -> "asyncio.Future[Any]":
    """Keep the thread busy with one text, so that what follows has to wait."""
    future = worker.submit(PREDICT, ["first"])
    while worker.num_waiting:
        await asyncio.sleep(0.001)
    return future


def test_what_waits_is_computed_together_within_the_budget(model: Echo) -> None:
    async def run() -> list[Any]:
        worker = Worker(model, batch_tokens=4)
        futures = [await started(worker, model)]
        futures += [worker.submit(PREDICT, [f"{i}", "two words"]) for i in range(3)]
        futures.append(worker.submit(PREDICT, ["a"], ["b"]))  # pairs are apart
        futures.append(worker.submit(PREDICT, ["a text of many words"]))
        model.is_allowed.set()
        answers = [(await future).results for future in futures]
        worker.close()
        return answers

    answers = asyncio.run(run())
    assert answers[:4] == [["first"], *([f"{i}", "two words"] for i in range(3))]
    assert answers[4:] == [[("a", "b")], ["a text of many words"]]
    assert model.batches[1] == ["0", "two words"]  # six words would exceed four
    assert sorted(map(len, model.batches)) == [1, 1, 1, 2, 2, 2]


def test_what_arrives_in_turns_of_the_event_loop_is_computed_together(
    model: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 60)
    model.is_allowed.set()

    async def run() -> None:
        worker = Worker(model)
        futures = []
        for number in range(20):
            futures.append(worker.submit(PREDICT, [str(number)]))
            await asyncio.sleep(0)
        await asyncio.gather(*futures)
        worker.close()

    asyncio.run(run())
    assert model.batches == [[*map(str, range(20))]]


def test_requests_without_end_keep_nobody_waiting(
    model: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 0)
    model.is_allowed.set()

    async def run() -> None:
        worker = Worker(model, max_queue=10**9)
        first = worker.submit(PREDICT, ["first"])
        while not first.done():
            worker.submit(PREDICT, ["another"])
            await asyncio.sleep(0)
        worker.close()

    asyncio.run(run())
    assert model.batches[0][0] == "first"


def test_one_bad_request_does_not_spoil_the_others(model: Echo) -> None:
    async def run() -> list[Any]:
        worker = Worker(model)
        first = await started(worker, model)
        futures = [worker.submit(PREDICT, [text]) for text in ("a", "bad", "b")]
        model.is_allowed.set()
        answers = await asyncio.gather(first, *futures, return_exceptions=True)
        worker.close()
        return answers

    _, a, bad, b = asyncio.run(run())
    assert (a.results, b.results) == (["a"], ["b"])
    assert isinstance(bad, WarmstartError)


def test_a_request_that_nobody_waits_for_is_not_computed(model: Echo) -> None:
    async def run() -> None:
        worker = Worker(model)
        first = await started(worker, model)
        left = worker.submit(PREDICT, ["left"])
        left.cancel()
        model.is_allowed.set()
        await first
        await worker.submit(PREDICT, ["last"])
        worker.close()

    asyncio.run(run())
    assert model.batches == [["first"], ["last"]]


def test_small_requests_take_turns_with_the_parts_of_a_large_one(model: Echo) -> None:
    async def run() -> list[Any]:
        worker = Worker(model, batch_tokens=4)
        first = await started(worker, model)
        large = worker.submit(PREDICT, [f"text {number}" for number in range(3)])
        small = [worker.submit(PREDICT, [f"small{number}"]) for number in range(6)]
        assert worker.num_waiting == 9
        model.is_allowed.set()
        await asyncio.gather(first, large, *small)
        worker.close()
        return [large.result().results, large.result().num_tokens]

    assert asyncio.run(run()) == [["text 0", "text 1", "text 2"], 6]
    small = [f"small{number}" for number in range(6)]
    parts = [["text 0"], ["text 1"], ["text 2"]]  # small, since others were served just now
    assert model.batches[1:] == [small[:4], parts[0], small[4:], *parts[1:]]


def test_a_large_request_has_the_budget_for_itself_when_nobody_else_asks(
    model: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT_S", 0.0)

    async def run() -> None:
        worker = Worker(model, batch_tokens=4)
        first = await started(worker, model)
        large = worker.submit(PREDICT, [f"text {number}" for number in range(5)])
        model.is_allowed.set()
        await asyncio.gather(first, large)
        worker.close()

    asyncio.run(run())
    assert model.batches[1:] == [["text 0", "text 1"], ["text 2", "text 3"], ["text 4"]]


def test_the_rest_of_a_request_that_nobody_waits_for_is_not_computed(model: Echo) -> None:
    async def run() -> None:
        worker = Worker(model, batch_tokens=1)
        large = worker.submit(PREDICT, [str(number) for number in range(1000)])
        while worker.num_waiting > 999:
            await asyncio.sleep(0.001)
        large.cancel()
        assert worker.num_waiting == 0
        model.is_allowed.set()
        await worker.submit(PREDICT, ["last"])
        worker.close()

    asyncio.run(run())
    assert model.batches == [["0"], ["last"]]


def test_a_part_that_fails_ends_its_request(model: Echo) -> None:
    model.is_allowed.set()

    async def run() -> None:
        worker = Worker(model, batch_tokens=1)
        with pytest.raises(WarmstartError, match="a bad text"):
            await worker.submit(PREDICT, ["good", "bad", "never", "ever"])
        await worker.submit(PREDICT, ["last"])
        worker.close()

    asyncio.run(run())
    assert model.batches == [["good"], ["bad"], ["last"]]


def test_sizes_are_checked_before_anything_is_computed(model: Echo) -> None:
    def check(_: Any, sizes: Sequence[TextSize]) -> None:
        if sum(size.num_tokens for size in sizes) > 2:
            raise RefusedError(413, "too many words")

    async def run() -> None:
        worker = Worker(model)
        first = await started(worker, model)
        call = Call("predict", check=check)
        large = worker.submit(call, ["three words here"])
        small = worker.submit(call, ["two words"])
        model.is_allowed.set()
        await asyncio.gather(first, small)
        with pytest.raises(RefusedError, match="too many words"):
            await large
        worker.close()

    asyncio.run(run())
    assert model.batches == [["first"], ["two words"]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_answers_everyone(model: Echo) -> None:
    async def run() -> tuple[list[Any], Worker]:
        worker = Worker(model)
        first = await started(worker, model)
        futures = [worker.submit(PREDICT, [text]) for text in ("a", "fatal")]
        futures.append(worker.submit(PREDICT, ["waits"], ["apart"]))
        stream = worker.stream(lambda: model.stream("x", 10**9))
        model.is_allowed.set()
        answers = await asyncio.gather(first, *futures, return_exceptions=True)
        with pytest.raises(RefusedError, match="thread of echo has died"):
            async for _ in stream.pieces(5):
                pass
        with pytest.raises(RefusedError, match="has died"):
            worker.submit(PREDICT, ["late"])
        return answers, worker

    (first, *others), worker = asyncio.run(run())
    assert first.results == ["first"]
    assert [other.status for other in others] == [503] * 3
    worker.close()
    assert (worker.is_alive, worker.num_waiting) == (False, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_with_a_dead_thread_says_so(model: Echo) -> None:
    model.is_allowed.set()
    config = ServeConfig(runs=("echo",))
    app = create_app(Service({"echo": model, "other": Echo()}, config), None)
    with TestClient(app, "http://localhost") as client:
        assert client.get("/health").status_code == 200
        for text in ("fatal", "later"):
            reply = client.post("/classify", json={"model": "echo", "texts": [text]})
            assert reply.status_code == 503
            assert "thread of echo has died" in reply.json()["error"]["message"]
        health = client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "failed")


def test_a_full_queue_is_refused_and_empties(model: Echo) -> None:
    async def run() -> None:
        worker = Worker(model, max_queue=3)
        first = await started(worker, model)
        waiting = worker.submit(PREDICT, ["a", "b"])
        with pytest.raises(RefusedError, match="2 texts are waiting for echo"):
            worker.submit(PREDICT, ["c", "d"])
        model.is_allowed.set()
        await asyncio.gather(first, waiting)
        assert worker.num_waiting == 0
        await worker.submit(PREDICT, ["c", "d", "e"])
        worker.close()
        with pytest.raises(RefusedError, match="shutting down"):
            worker.submit(PREDICT, ["f"])

    asyncio.run(run())


def test_large_requests_leave_room_in_the_queue_for_small_ones(model: Echo) -> None:
    async def run() -> None:
        worker = Worker(model, max_queue=16)
        first = await started(worker, model)
        futures = [worker.submit(PREDICT, ["large"] * 8), worker.submit(PREDICT, ["large"] * 4)]
        with pytest.raises(RefusedError, match="12 texts are waiting"):
            worker.submit(PREDICT, ["large"] * 4)
        futures += [worker.submit(PREDICT, ["small"]) for _ in range(4)]
        model.is_allowed.set()
        await asyncio.gather(first, *futures)
        worker.close()

    asyncio.run(run())


def test_closing_finishes_what_was_accepted(model: Echo) -> None:
    async def run() -> list[Any]:
        worker = Worker(model)
        futures = [worker.submit(PREDICT, [str(number)]) for number in range(20)]
        stream = worker.stream(lambda: model.stream("x", 30))
        model.is_allowed.set()
        await asyncio.to_thread(worker.close)
        pieces = [piece.text async for piece in stream.pieces(5)]
        return [(await future).results[0] for future in futures] + pieces

    found = asyncio.run(run())
    assert found == [*map(str, range(20)), *(f"x{number}" for number in range(30)), ""]


def test_a_stream_that_nobody_reads_ends(model: Echo) -> None:
    model.is_allowed.set()

    async def run() -> None:
        worker = Worker(model)
        stream = worker.stream(lambda: model.stream("x", 10**9))
        async for _ in stream.pieces(5):
            break
        while worker.num_waiting:
            await asyncio.sleep(0.001)
        worker.close()

    asyncio.run(run())


def test_texts_of_one_request_leave_room_for_others(model: Echo) -> None:
    """A request of many texts has one token in turn with each other request, not all of them."""
    order: list[str] = []

    def texts(prompt: str, num_texts: int) -> Iterator[GeneratedPiece]:
        for _ in range(num_texts):
            for piece in model.stream(prompt, 2):
                order.append(prompt)
                yield piece

    async def run() -> None:
        worker = Worker(model)
        first = await started(worker, model)
        large = worker.stream(lambda: texts("large", 100), 100)
        small = worker.stream(lambda: texts("small", 1))
        assert worker.num_waiting == 101
        model.is_allowed.set()
        ends = [piece.end async for piece in small.pieces(5) if piece.end]
        ends += [piece.end async for piece in large.pieces(5) if piece.end]
        assert ends == ["length"] * 101
        await first
        worker.close()

    asyncio.run(run())
    assert order[:6] == ["large", "small"] * 3


def test_texts_that_nobody_reads_leave_the_queue_though_their_turn_has_not_come(
    model: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 1)
    model.is_allowed.set()

    async def run() -> None:
        worker = Worker(model)
        endless = worker.stream(lambda: model.stream("x", 10**9))
        behind = worker.stream(lambda: model.stream("y", 1), 50)
        behind.is_cancelled = True
        while worker.num_waiting > 1:
            await asyncio.sleep(0.001)
        endless.is_cancelled = True
        await asyncio.to_thread(worker.close)

    asyncio.run(run())


def test_a_whole_text_has_one_time_limit() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Slow(Echo):
        def stream(self, *_: Any) -> Iterator[GeneratedPiece]:  # type: ignore[override]
            for _ in range(10**6):
                self.is_allowed.wait(0.05)
                yield GeneratedPiece("x")

    config = ServeConfig(runs=("echo",), timeout=0.5)
    app = create_app(Service({"echo": Slow()}, config), None)
    with TestClient(app, "http://localhost") as client:
        for path in ("/generate", "/v1/completions"):
            reply = client.post(path, json={"model": "echo", "prompt": "a"})
            assert reply.status_code == 504
            assert "no answer in 0.5 seconds" in reply.json()["error"]["message"]
