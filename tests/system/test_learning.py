"""Small worlds in which it is known what must be learned."""

from pathlib import Path
from random import Random

import pytest

from command_line import MACHINE, read, succeed, write_labelled

SHAPE = (
    "--preset modern-small --width 48 --heads 4 --depth 2 --ffn-width 96 --vocab-size 300 "
    "--norm rms --norm-position pre --positions rope --activation swiglu --dropout 0"
)


@pytest.mark.slow
def test_a_causal_model_learns_to_copy_digits(here: Path) -> None:
    random = Random(0)

    def line() -> str:
        digits = " ".join(random.choices("0123456789", k=3))
        return f"{digits} = {digits}"

    (here / "texts.txt").write_text("".join(f"{line()}\n" for _ in range(3000)))
    succeed(
        f"pretrain texts.txt -o run {SHAPE} --objective causal --max-length 32 --steps 120 "
        f"--batch-tokens 768 --learning-rate 0.008 {MACHINE}"
    )
    right = 0
    for _ in range(20):
        wanted = line()
        prompt = wanted.split("=")[0] + "="
        written = succeed(f"generate run --prompt '{prompt}' --temperature 0 {MACHINE}").out
        right += written.strip() == wanted
    assert right >= 17


@pytest.mark.slow
def test_a_warm_start_beats_a_cold_one(here: Path) -> None:
    """Two families of words never stand together; a handful of labels names few of them."""
    random = Random(1)
    words = ["".join(random.choices("abcdefghijklmnop", k=4)) for _ in range(400)]
    families = words[:200], words[200:]

    def text(family: int) -> str:
        return " ".join(random.choices(families[family], k=6))

    (here / "texts.txt").write_text("".join(f"{text(n % 2)}\n" for n in range(2500)))
    for name, num in (("train", 8), ("valid", 60), ("test", 200)):
        rows = [("left" if n % 2 else "right", text(n % 2)) for n in range(num)]
        write_labelled(here / f"{name}.tsv", rows)
    succeed(
        f"pretrain texts.txt -o base {SHAPE.replace('300', '900')} --max-length 32 --steps 100 "
        f"--batch-tokens 768 --learning-rate 0.01 {MACHINE}"
    )
    succeed(
        "compare --from base --train train.tsv --valid valid.tsv --test test.tsv -o out "
        f"--seeds 0,1 --trials 1 --epochs 8 {MACHINE}"
    )
    result = read(here / "out/results.json")
    truth = result["splits"][-1]["classes"]
    scores: dict[str, list[float]] = {}
    for cell in result["cells"]:
        pairs = zip(cell["predictions"]["test"], truth, strict=True)
        right = sum(found == true for found, true in pairs) / len(truth)
        scores.setdefault(cell["arm"], []).append(right)
    assert min(scores["warm"]) > 0.9
    assert max(scores["cold"]) < 0.8
