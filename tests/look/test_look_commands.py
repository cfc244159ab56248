"""The `look` commands as a user meets them."""

import json
from pathlib import Path

import numpy as np
import pytest

import warmstart
from command_line import World, refuse, run, succeed
from warmstart.commands import VERBS, Command
from warmstart.errors import WarmstartError

SVG, PNG = b"<?xml", b"\x89PNG"
TEXT = "A fine book."


def starts(path: Path, size: int = 5) -> bytes:
    return path.read_bytes()[:size]


@pytest.mark.parametrize("words", ["", "--words", "--words --layer 1 --head 2"])
def test_attention_in_every_format(base: Path, tmp_path: Path, words: str) -> None:
    for name, begin in (("a.html", b"<!DOC"), ("a.png", PNG[:4]), ("a.svg", SVG)):
        ran = succeed(
            f"look attention {{base}} --text '{TEXT}' {words} -o {{out}}",
            base=base,
            out=tmp_path / name,
        )
        assert starts(tmp_path / name).startswith(begin)
        assert "1 × 2 heads" in ran.out
        assert f"wrote {tmp_path / name}" in ran.out


@pytest.mark.parametrize(
    ("look", "ending"),
    [
        *(("attention {base} --text book", ending) for ending in ("html", "png", "svg")),
        *(("positions {base}", ending) for ending in ("png", "svg")),
    ],
)
def test_a_figure_replaces_a_figure_and_nothing_else(
    base: Path, tmp_path: Path, look: str, ending: str
) -> None:
    out = tmp_path / f"a.{ending}"
    for _ in range(2):
        succeed(f"look {look} -o {{out}}", base=base, out=out)
    out.write_text("a file of mine")
    assert f"-o {out} exists already" in refuse(f"look {look} -o {{out}}", base=base, out=out)
    assert out.read_text() == "a file of mine"


def test_attention_of_a_classifier(warm: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    succeed(f"look attention {{run}} --text '{TEXT}' -o {{out}}", run=warm, out=out)
    assert "a classifier" in out.read_text(encoding="utf-8")


def test_attention_from_python(base: Path, warm: Path) -> None:
    for folder in (base, warm):
        found = warmstart.load(folder).attention(TEXT)["self"]
        np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)
        assert found.by_word().keys.pieces[1:4] == ("A", "fine", "book.")


LOOKS = [verb for name, verb in VERBS.items() if name.startswith("look_")]


@pytest.mark.parametrize("command", LOOKS, ids=lambda command: command.name)
def test_only_two_views_are_pages(command: Command) -> None:
    required = {s.key: "a" for s in command.settings.declared() if s.is_required}
    if command.name in ("look attention", "look explore"):
        command.settings.from_values(required | {"out": "page.html"})
        return
    with pytest.raises(WarmstartError, match=r"not a page; name page\.png or page\.svg"):
        command.settings.from_values(required | {"out": "page.html"})


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("--text x -o a.pdf", "-o a.pdf must end in .html, .png, .svg"),
        ("-o a.html", "--text is missing"),
        ("--text x --source y -o a.html", "mutually exclusive"),
        ("--text x --target y -o a.html", "--target needs a translator"),
        ("--text x --text2 y -o a.html", "--text2 needs a model with bidirectional attention"),
        ("--text x --part cross -o a.png", "--part cross is not in this model, which has self"),
        ("--text x --layer 9 --head 1 -o a.png", "--layer 9 is not in this model, which has 1"),
        ("--text x --head 2 -o a.png", "--layer and --head go together"),
        ("--text '' -o a.png", "has no tokens to show"),
    ],
)
def test_attention_refuses(base: Path, here: Path, command: str, fault: str) -> None:
    assert fault in refuse(f"look attention {{base}} {command}", base=base)
    assert not list(here.iterdir())


def test_attention_of_a_folder_that_is_no_run(tmp_path: Path) -> None:
    assert "does not exist" in refuse(
        "look attention {run} --text x -o {out}", run=tmp_path / "no", out=tmp_path / "a.png"
    )
    assert run(
        "look attention {run} --text x -o {out}", run=tmp_path, out=tmp_path / "a.png"
    ).said.startswith("warmstart:")


def test_masks_of_runs_and_presets(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "mask.svg"
    ran = succeed("look mask {base} --text 'A fine book.' --text Bad -o {out}", base=base, out=out)
    assert "causal mask 2" in ran.out
    assert starts(out) == SVG
    ran = succeed("look mask lab --text 'a b' --text c --packed -o {out}", out=tmp_path / "m.png")
    assert "packed row: attention is allowed for 16 of 49" in ran.out
    command = "look mask vaswani-base --source 'a b' --target 'c' -o {out}"
    assert (
        "cross mask: attention is allowed for 8 of 8"
        in succeed(command, out=tmp_path / "m.svg").out
    )
    assert (
        "bidirectional mask"
        in succeed("look mask bert-base --text 'a b' -o {out}", out=tmp_path / "m.png").out
    )


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("nothing --text x", "'nothing' is neither a preset nor a run folder"),
        ("lab", "--text is missing"),
        ("lab --source x --target y", "lab is no translator: give --text"),
        ("vaswani-base --text x", "give --source and --target, not --text"),
        ("vaswani-base --source x", "--source is given 1 times and --target 0 times"),
    ],
)
def test_masks_refuse(tmp_path: Path, command: str, fault: str) -> None:
    assert fault in refuse(f"look mask {command} -o {{out}}", out=tmp_path / "m.png")


@pytest.mark.parametrize("preset", ["lab", "modern-small", "bert-base"])
def test_positions_of_presets(tmp_path: Path, preset: str) -> None:
    out = tmp_path / "p.svg"
    succeed(f"look positions {preset} --length 32 -o {{out}}", out=out)
    assert starts(out) == SVG


def test_positions_of_a_run_with_perplexity(world: World, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.png"
    command = "look positions {base} --test {text} --past 1.5 --precision fp32 -o {out}"
    ran = succeed(command, base=base, text=world.texts, out=out)
    assert "around position" in ran.out
    assert "windows of text" in ran.out
    assert starts(out, 4) == PNG


def test_positions_refuse(world: World, base: Path, warm: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.png"
    text = world.texts
    for command, fault in (
        (f"lab --test {text}", "--test needs a run, and lab is a preset"),
        (f"{warm} --test {text}", "is a classifier; perplexity by position needs a causal"),
        (f"{base} --test {tmp_path}", "is a folder; give one file"),
        (f"{base} --test {tmp_path}/no.txt", "does not exist"),
    ):
        assert fault in refuse(f"look positions {command} -o {{out}}", out=out)
    assert not out.exists()


def test_complexity_as_table_figure_and_json(tmp_path: Path) -> None:
    command = "look complexity --lengths 16,32 --widths 8 --seconds 0.3 --threads 1"
    ran = succeed(f"{command} -o {{out}}", out=tmp_path / "g.png")
    assert "convolution" in ran.out
    assert starts(tmp_path / "g.png", 4) == PNG
    growth = json.loads(succeed(f"{command} --json").out)
    assert growth["layers"][1]["name"] == "recurrence"
    assert growth["layers"][0]["sizes"] == [16, 32]


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        ("--lengths 16", "--lengths 16: give two lengths or more"),
        ("--lengths 16,32 --widths 8,16", "vary one at a time"),
    ],
)
def test_complexity_varies_one_size(sizes: str, fault: str) -> None:
    assert fault in refuse(f"look complexity {sizes}")


def test_looking_from_python(base: Path, tmp_path: Path) -> None:
    result = warmstart.look_mask(model="lab", text=("a b",), out=str(tmp_path / "m.png"))
    assert result.masks[0].cells.shape == (4, 4)
    found = warmstart.look_attention(run=str(base), text=TEXT, out=str(tmp_path / "a.svg"))
    assert found.maps["self"].weights.ndim == 4
