"""Over HTTP, texts unlike those trained on are marked as `predict --unusual` marks them."""

import json
from pathlib import Path

import pytest

from command_line import MACHINE, World, refuse, succeed
from http_server import serving

TEXTS = ["A fine book.", "Le livre est très long et je ne le lirai pas.", "x"]


@pytest.fixture(scope="module")
def trained(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("unusual") / "run"
    succeed(f"finetune --from {base} --train {world.train} -o {run} --epochs 1 {MACHINE}")
    return run


@pytest.mark.parametrize("with_words", [False, True])
def test_marks_are_those_of_predict(trained: Path, world: World, with_words: bool) -> None:
    options = f"--unusual --like {world.texts}"
    lines = succeed(f"predict {trained} {options} --json {MACHINE}", "\n".join(TEXTS).encode()).out
    expected = [json.loads(line) for line in lines.splitlines()]
    with serving(f"{trained} {options}") as server:
        body = {"texts": TEXTS, "unusual": True, "explain": with_words}
        found = server.post("/classify", body).json["predictions"]
        plain = server.post("/classify", {"texts": TEXTS}).json["predictions"]
    for name in ("label", "unusual", "distance"):
        assert [row[name] for row in found] == [row[name] for row in expected]
    assert found[1]["unusual"]
    assert ("words" in found[0]) == with_words
    assert not any("unusual" in row for row in plain)


def test_a_server_without_usual_texts_says_how_to_start_it(trained: Path) -> None:
    with serving(str(trained)) as server:
        reply = server.post("/classify", {"texts": TEXTS, "unusual": True})
    assert reply.status == 422
    assert "start it with --unusual" in reply.message


def test_usual_texts_that_cannot_be_read_stop_the_server(
    trained: Path, base: Path, tmp_path: Path
) -> None:
    assert "is not a file" in refuse(
        f"serve {trained} --unusual --like {tmp_path}/gone.txt --port 0"
    )
    assert "none of these does" in refuse(f"serve {base} --unusual --port 0")
    assert "give --unusual too" in refuse(f"serve {trained} --like {tmp_path}/gone.txt")
