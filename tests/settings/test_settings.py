import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, choose, option, read_settings_file


class Job(Settings):
    """A job with a setting of every kind."""

    files: tuple[str, ...] = option("files to read", positional=True)
    out: str = option("folder to write", recorded=False)
    from_run: str | None = option("run to start from", None, key="from")
    num_steps: int = option("steps", 10, least=1, most=100)
    rate: float = option("rate", 0.1, above=0)
    share: float | None = option("share", None, least=0, most=1)
    kind: Literal["bpe", "unigram"] = option("kind", "bpe")
    fast: bool = option("fast", False, fixed=False)
    seeds: tuple[int, ...] = option("seeds", (0, 1), least=0, comma_separated=True)


GIVEN: dict[str, Any] = {"files": ["a.txt"], "out": "runs/a"}


def _job(**changes: Any) -> Job:
    return Job.from_values({**GIVEN, **changes})


def test_values_by_key() -> None:
    job = Job.from_values({**GIVEN, "from": "runs/base", "rate": 1, "seeds": [3], "fast": True})
    assert job.files == ("a.txt",)
    assert job.from_run == "runs/base"
    assert (job.rate, type(job.rate)) == (1.0, float)
    assert job.seeds == (3,)
    assert job.fast
    assert job.share is None


def test_one_value_makes_a_list_and_a_path_is_text() -> None:
    job = _job(files=Path("a.txt"), seeds=7, out=Path("runs"))
    assert (job.files, job.seeds, job.out) == (("a.txt",), (7,), "runs")


@pytest.mark.parametrize(
    ("key", "meant"),
    [("num_step", "num_steps"), ("form", "from"), ("sed", "seeds"), ("file", "files")],
)
def test_an_unknown_key_gets_the_right_one(key: str, meant: str) -> None:
    with pytest.raises(WarmstartError, match=f"unknown setting '{key}'; did you mean '{meant}'"):
        _job(**{key: 1})


def test_a_strange_key_gets_the_list() -> None:
    with pytest.raises(WarmstartError, match=r"unknown setting 'zzz'; known: .*fast.*rate"):
        _job(zzz=1)
    with pytest.raises(WarmstartError, match="unknown setting 'from_run'"):
        _job(from_run="x")  # the field's own name is not what a user writes


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num_steps", "ten", r"--num-steps must be a whole number, not 'ten'"),
        ("num_steps", 1.5, r"--num-steps must be a whole number, not 1\.5"),
        ("num_steps", True, r"--num-steps must be a whole number, not True"),
        ("rate", "fast", r"--rate must be a number, not 'fast'"),
        ("rate", False, r"--rate must be a number, not False"),
        ("fast", 1, r"--fast must be true or false, not 1"),
        ("fast", "yes", r"--fast must be true or false, not 'yes'"),
        ("from", 3, r"--from must be text, not 3"),
        ("files", [1], r"FILES must be text, not 1"),
        ("seeds", [0, "one"], r"--seeds must be a whole number, not 'one'"),
        ("seeds", [[0]], r"--seeds must be a whole number, not \[0\]"),
    ],
)
def test_a_wrong_type_is_refused_with_the_value(key: str, value: Any, said: str) -> None:
    with pytest.raises(WarmstartError, match=said):
        _job(**{key: value})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num_steps", 0, "--num-steps 0 is not allowed: it must be at least 1 and at most 100"),
        ("num_steps", 101, "--num-steps 101 is not allowed: it must be at least 1 and at most 100"),
        ("rate", 0, r"--rate 0\.0 is not allowed: it must be above 0"),
        ("rate", float("nan"), "--rate nan is not allowed: it must be finite"),
        ("rate", float("inf"), "--rate inf is not allowed: it must be finite"),
        ("share", 1.5, r"--share 1\.5 is not allowed: it must be at least 0 and at most 1"),
        ("seeds", [0, -1], "--seeds -1 is not allowed: it must be at least 0"),
    ],
)
def test_a_value_out_of_limits_is_refused(key: str, value: Any, said: str) -> None:
    with pytest.raises(WarmstartError, match=said):
        _job(**{key: value})


@given(st.integers())
def test_limits_hold_for_every_number(value: int) -> None:
    if 1 <= value <= 100:
        assert _job(num_steps=value).num_steps == value
    else:
        with pytest.raises(WarmstartError, match=str(value)):
            _job(num_steps=value)


@pytest.mark.parametrize("value", ["unigrm", "words", 3, None])
def test_an_unknown_word_is_refused_with_the_value(value: Any) -> None:
    said = "is missing" if value is None else f"--kind {value!r} is unknown; "
    with pytest.raises(WarmstartError, match=said):
        _job(kind=value)
    with pytest.raises(WarmstartError, match="did you mean 'unigram'"):
        _job(kind="unigrm")


@pytest.mark.parametrize("empty", [None, [], ()])
def test_what_is_needed_and_missing_is_named(empty: Any) -> None:
    with pytest.raises(WarmstartError, match="FILES is missing: files to read"):
        _job(files=empty)
    with pytest.raises(WarmstartError, match="--out is missing: folder to write"):
        Job.from_values({"files": ["a"]})


def test_checks_hold_in_python_too() -> None:
    with pytest.raises(WarmstartError, match="--num-steps 0"):
        Job(files=("a",), out="b", num_steps=0)
    with pytest.raises(WarmstartError, match="--rate -1"):
        dataclasses.replace(_job(), rate=-1)
    with pytest.raises(WarmstartError, match="FILES is missing"):
        Job(files=(), out="b")


def test_recorded_is_json_and_builds_the_job_again() -> None:
    job = Job.from_values({**GIVEN, "from": "base", "share": 0.25})
    recorded = job.recorded()
    assert "out" not in recorded
    assert recorded["from"] == "base"
    assert json.loads(json.dumps(recorded)) == recorded
    assert Job.from_values({**recorded, "out": "runs/a"}) == job


def test_changes_are_named_with_both_values() -> None:
    recorded = json.loads(json.dumps(_job(num_steps=5, seeds=[1, 2]).recorded()))
    assert _job(num_steps=5, seeds=[1, 2]).changed_from(recorded) == []
    assert _job(num_steps=6, seeds=[1, 2]).changed_from(recorded) == ["--num-steps was 5, now 6"]
    assert _job(num_steps=5, seeds=[1]).changed_from(recorded) == ["--seeds was [1, 2], now [1]"]
    assert len(_job(rate=0.5, kind="unigram").changed_from(recorded)) == 4


def test_some_settings_may_change() -> None:
    recorded = _job().recorded()
    assert _job(fast=True, out="elsewhere").changed_from(recorded) == []
    del recorded["rate"]  # written before the setting existed
    assert _job(rate=3).changed_from(recorded) == []


def test_choose_names_what_there_is() -> None:
    table = {"lab": 1, "tiny": 2}
    assert choose(table, "lab", "--preset") == 1
    with pytest.raises(WarmstartError, match="--preset='tny' is unknown; did you mean 'tiny'"):
        choose(table, "tny", "--preset")
    with pytest.raises(WarmstartError, match="known: lab, tiny"):
        choose(table, "?", "--preset")


def test_settings_files(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('num-steps = 3\nrate = 0.5\nfiles = ["a"]\n')
    assert read_settings_file(toml) == {"num_steps": 3, "rate": 0.5, "files": ["a"]}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"command": "x", "settings": {"rate": 0.5}, "model": {}}))
    assert read_settings_file(config) == read_settings_file(config, "x") == {"rate": 0.5}
    with pytest.raises(WarmstartError, match=r"config\.json was written by x, not y"):
        read_settings_file(config, "y")


def test_an_unknown_key_is_said_to_stand_where_it_stands() -> None:
    with pytest.raises(WarmstartError, match=r"^a\.toml: unknown setting 'rat'; .*'rate'"):
        Job.check_keys(["rat"], "a.toml: ")
    Job.check_keys(["rate", "from"], "a.toml: ")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.toml", b"rate = ", "cannot be read"),
        ("a.json", b"{", "not valid JSON"),
        ("a.toml", b"\xff\xfe", "cannot be read"),
        ("a.json", b"[1]", "must hold a JSON object"),
        ("a.json", b'{"settings": 3}', "settings=3 must be an object"),
    ],
)
def test_bad_settings_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(WarmstartError, match=f"{name}:? {said}"):
        read_settings_file(path)
    with pytest.raises(WarmstartError, match=r"absent\.toml does not exist"):
        read_settings_file(tmp_path / "absent.toml")
