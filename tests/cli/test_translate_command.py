"""A translator in use: translate, evaluate, and what either refuses."""

import gzip
import json
from pathlib import Path

import pytest
import sacrebleu

import warmstart
from command_line import MACHINE, World, read, refuse, run, succeed
from forked_commands import fork
from toy_pairs import Toy
from warmstart.recipes import use as module

TEST = "--source {test_source} --target {test_target}"


def _lines(command: str, stdin: bytes = b"") -> list[str]:
    return succeed(f"{command} {MACHINE}", stdin).out.splitlines()


def test_a_line_in_is_a_line_out_in_order(toy: Toy, translator: Path) -> None:
    lines = toy.test_source.read_bytes().splitlines()
    forward = _lines(f"translate {translator}", b"\n".join(lines))
    backward = _lines(f"translate {translator}", b"\n".join(lines[::-1]))
    assert len(forward) == len(lines)
    assert forward == backward[::-1]
    assert len(set(forward)) > 30


def test_a_file_and_standard_input_give_the_same(toy: Toy, translator: Path, here: Path) -> None:
    piped = _lines(f"translate {translator}", toy.test_source.read_bytes())
    assert _lines(f"translate {translator} -", toy.test_source.read_bytes()) == piped
    assert _lines(f"translate {translator} {toy.test_source}") == piped
    first = toy.test_source.read_text().splitlines()[0]
    assert _lines(f"translate {translator} --text '{first}'") == piped[:1]
    succeed(f"translate {translator} {toy.test_source} -o out.txt {MACHINE}")
    assert (here / "out.txt").read_text().splitlines() == piped
    assert [path.name for path in here.iterdir()] == ["out.txt"]


def test_what_is_read_and_decoded_together_changes_nothing(
    toy: Toy, translator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = toy.test_source.read_bytes()
    together = _lines(f"translate {translator}", text)
    assert _lines(f"translate {translator} --batch-tokens 1", text) == together
    monkeypatch.setattr(module, "WINDOW", 3)
    assert _lines(f"translate {translator}", text) == together


def test_empty_lines_stay_empty_lines(translator: Path) -> None:
    found = _lines(f"translate {translator}", b"\n1 2\n\n   \n3 4\n\n")
    assert [bool(line) for line in found] == [False, True, False, False, True, False]
    assert _lines(f"translate {translator}") == []
    assert _lines(f"translate {translator} --json", b"\n") == [
        '{"source": "", "translations": [{"text": "", "score": 0.0, "num_parts": 1}]}'
    ]


def test_windows_line_ends_and_a_mark_at_the_start(translator: Path) -> None:
    plain = _lines(f"translate {translator}", b"1 2\n3 4\n")
    assert _lines(f"translate {translator}", b"\xef\xbb\xbf1 2\r\n3 4") == plain


def test_tables_and_compressed_files(translator: Path, here: Path) -> None:
    plain = _lines(f"translate {translator}", b"1 2\n3 4\n")
    (here / "rows.jsonl").write_text('{"text": "1 2"}\n{"text": "3 4"}\n')
    assert _lines(f"translate {translator} rows.jsonl") == plain
    (here / "rows.csv").write_text('source,id\n"1 2",a\n"3 4",b\n')
    assert _lines(f"translate {translator} rows.csv --columns text=source,_") == plain
    (here / "rows.txt.gz").write_bytes(gzip.compress(b"1 2\n3 4\n"))
    assert _lines(f"translate {translator} rows.txt.gz") == plain


def test_greedy_is_a_beam_of_one_and_beams_differ_little_here(toy: Toy, translator: Path) -> None:
    greedy = _lines(f"translate {translator} {toy.test_source} --beam 1")
    wide = _lines(f"translate {translator} {toy.test_source} --beam 8 --length-penalty 0.6")
    same = [a == b for a, b in zip(greedy, wide, strict=True)]
    assert sum(same) > 0.8 * len(same)


def test_several_translations_of_each_line(translator: Path) -> None:
    text = b"1 2\n\n3 4 5\n"
    lines = _lines(f"translate {translator} --n-best 3", text)
    assert len(lines) == 9
    assert lines[3:6] == ["", "", ""]
    assert lines[0] == _lines(f"translate {translator}", text)[0]
    found = [json.loads(line) for line in _lines(f"translate {translator} --n-best 3 --json", text)]
    assert [one["source"] for one in found] == ["1 2", "", "3 4 5"]
    assert [t["text"] for one in found for t in one["translations"]] == lines
    for one in found:
        scores = [t["score"] for t in one["translations"]]
        assert scores == sorted(scores, reverse=True)
        assert all(score <= 0 for score in scores)


def test_scores_stand_before_translations(translator: Path) -> None:
    plain = _lines(f"translate {translator}", b"1 2\n3 4 5\n")
    scored = [
        line.split("\t") for line in _lines(f"translate {translator} --scores", b"1 2\n3 4 5\n")
    ]
    assert [text for _, text in scored] == plain
    found = _lines(f"translate {translator} --json", b"1 2\n3 4 5\n")
    exact = [json.loads(line)["translations"][0]["score"] for line in found]
    assert [float(score) for score, _ in scored] == pytest.approx(exact, abs=1e-4)


def test_an_overlong_line_is_split_or_refused(translator: Path, here: Path) -> None:
    long = b"1 2 3. 4 5 6. 7 8 9. " * 10
    split = _lines(f"translate {translator}", b"1 2\n" + long + b"\n3 4\n")
    assert len(split) == 3
    assert len(split[1].split()) > 20
    said = succeed(f"translate {translator} {MACHINE}", b"1 2\n" + long + b"\n").said
    assert "1 sentence longer than the model reads: translated in parts" in said
    assert split[0] == _lines(f"translate {translator}", b"1 2\n")[0]
    ran = run(f"translate {translator} --overlong refuse -o out.txt", b"1 2\n" + long + b"\n")
    assert ran.code == 2
    assert "sentence 2, which begins '1 2 3. 4 5 6" in ran.said
    assert "--overlong split" in ran.said
    assert not (here / "out.txt").exists()


def test_a_sentence_is_counted_over_the_whole_input(
    translator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 2)
    text = b"1 2\n" * 4 + b"7 8 " * 40
    ran = run(f"translate {translator} --overlong refuse", text)
    assert "sentence 5, which begins" in ran.said


def test_a_checkpoint_translates_too(translator: Path) -> None:
    checkpoint = next((translator / "checkpoints").iterdir())
    assert len(_lines(f"translate {checkpoint}", b"1 2\n")) == 1


def test_it_runs_as_a_process_of_its_own(translator: Path) -> None:
    ran = fork(f"translate {translator} {MACHINE}", b"1 2\n\n3\n")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 3
    assert ran.err == ""


def test_half_precision_translates_nearly_alike(toy: Toy, translator: Path) -> None:
    whole = _lines(f"translate {translator} {toy.test_source}")
    half = _lines(f"translate {translator} {toy.test_source} --precision bf16")
    same = [a == b for a, b in zip(whole, half, strict=True)]
    assert sum(same) >= 0.8 * len(same)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--beam 0", "--beam"),
        ("--beam two", "--beam"),
        ("--n-best 6", "--n-best 6 is more than --beam 5:"),
        ("--n-best 0", "--n-best"),
        ("--length-penalty -1", "--length-penalty"),
        ("--max-ratio 0", "--max-ratio"),
        ("--overlong cut", "--overlong"),
        ("absent.txt", "absent.txt does not exist"),
        (".", ". is a folder"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    options: str, words: str, translator: Path, here: Path
) -> None:
    ran = run(f"translate {translator} {options} -o out.txt", b"1 2\n")
    assert ran.code == 2
    assert words in ran.err
    assert not (here / "out.txt").exists()


def test_a_binary_file_is_refused_and_nothing_written(translator: Path, here: Path) -> None:
    (here / "photo").write_bytes(b"1 2\n" + bytes(range(256)))
    assert "photo line 2: byte 1 is NUL" in refuse(f"translate {translator} photo -o out.txt")
    assert not (here / "out.txt").exists()
    ran = run(f"translate {translator}", b"caf\xe9\n")
    assert "standard input line 1: byte 4 (0xE9) is not UTF-8" in ran.said


@pytest.mark.parametrize(
    ("kind", "words"), [("base", "a causal language model"), ("warm", "a classifier")]
)
def test_a_run_that_is_no_translator_is_refused(
    kind: str, words: str, request: pytest.FixtureRequest
) -> None:
    parent = request.getfixturevalue(kind)
    assert f"{parent} is {words}; to translate you need a translator" in refuse(
        f"translate {parent}", b"1 2\n"
    )


def test_a_translator_does_not_predict_or_generate(translator: Path) -> None:
    for command in (f"predict {translator}", f"generate {translator}"):
        assert "is a translator" in refuse(command, b"1 2\n")


def test_evaluate_scores_as_sacrebleu_does(toy: Toy, translator: Path) -> None:
    found = succeed(f"evaluate {translator} {TEST} --json {MACHINE}", **vars(toy)).json
    lines = _lines(f"translate {translator} {toy.test_source}")
    references = toy.test_target.read_text().splitlines()
    assert found["bleu"] == sacrebleu.corpus_bleu(lines, [references]).score
    assert found["chrf"] == sacrebleu.corpus_chrf(lines, [references]).score
    assert found["sentences"] == len(references)
    for name in ("bleu", "chrf"):
        interval = found["intervals"][name]
        assert interval["low"] <= found[name] <= interval["high"] + 1e-9  # rounding
        assert f"version:{sacrebleu.__version__}" in found["signatures"][name]
    assert "tok:13a" in found["signatures"]["bleu"]


def test_evaluate_searches_as_it_is_told(toy: Toy, beginner: Path) -> None:
    greedy = succeed(f"evaluate {beginner} {TEST} --beam 1 --json {MACHINE}", **vars(toy)).json
    assert (greedy["beam"], greedy["length_penalty"]) == (1, 1.0)
    lines = _lines(f"translate {beginner} {toy.test_source} --beam 1")
    references = toy.test_target.read_text().splitlines()
    assert greedy["bleu"] == sacrebleu.corpus_bleu(lines, [references]).score


def test_evaluate_shows_what_it_found(toy: Toy, translator: Path) -> None:
    shown = succeed(f"evaluate {translator} {TEST}", **vars(toy)).out
    for words in ("bleu", "chrf", "95% interval of bleu", "tok:13a", "scores.json"):
        assert words in shown


def test_a_table_of_pairs_is_scored_too(toy: Toy, translator: Path, here: Path) -> None:
    sides = [path.read_text().splitlines() for path in (toy.test_source, toy.test_target)]
    rows = [{"translation": {"d": s, "w": t}} for s, t in zip(*sides, strict=True)]
    (here / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = f"evaluate {translator} --test test.jsonl --columns source=d,target=w --json"
    table = succeed(f"{command} {MACHINE}").json
    files = succeed(f"evaluate {translator} {TEST} --json {MACHINE}", **vars(toy)).json
    assert table["bleu"] == files["bleu"]


def test_every_evaluation_is_in_the_ledger(toy: Toy, beginner: Path) -> None:
    before = len(read(beginner / "scores.json")["ledger"])
    ran = succeed(f"evaluate {beginner} {TEST} {MACHINE}", **vars(toy))
    ledger = read(beginner / "scores.json")["ledger"]
    assert len(ledger) == before + 1
    assert ledger[-1]["file"] == str(toy.test_target)
    assert len(ledger[-1]["sha256"]) == 64
    assert ledger[-1]["scores"]["signatures"]["bleu"]
    assert "on this file" in ran.out


def test_sentences_seen_in_training_are_counted(toy: Toy, translator: Path, here: Path) -> None:
    for name, path in (("s", toy.source), ("t", toy.target)):
        (here / name).write_text("".join(path.read_text().splitlines(keepends=True)[:7]))
    found = succeed(f"evaluate {translator} --source s --target t --json {MACHINE}").json
    assert found["seen_in_training"] == 7


def test_two_runs_against_each_other(toy: Toy, translator: Path, beginner: Path) -> None:
    command = f"evaluate {translator} {TEST} --against {beginner} {MACHINE}"
    found = succeed(f"{command} --json", **vars(toy)).json
    other = succeed(f"evaluate {beginner} {TEST} --json {MACHINE}", **vars(toy)).json
    assert found["against"]["run"] == str(beginner)
    bleu, chrf = found["against"]["tests"]
    entry = read(beginner / "scores.json")["ledger"][-2]["scores"]
    assert entry == {"bleu": bleu["other"], "chrf": chrf["other"], "compared_with": str(translator)}
    assert (bleu["other"], bleu["score"]) == (other["bleu"], found["bleu"])
    assert (chrf["other"], chrf["score"]) == (other["chrf"], found["chrf"])
    assert bleu["p_value"] < 0.01
    shown = succeed(command, **vars(toy)).out
    assert "paired bootstrap p = " in shown
    itself = succeed(
        f"evaluate {translator} {TEST} --against {translator} --json {MACHINE}", **vars(toy)
    ).json
    assert [test["p_value"] for test in itself["against"]["tests"]] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--source {test_source}", "--source and --target"),
        ("--test {test_source}", "plain lines hold one side only"),
        ("--test {test_source} --source {test_source}", "leave out --source and --target"),
        ("--source {source} --target {test_target}", "has 400 lines but"),
        ("--source absent --target {test_target}", "absent"),
        ("--source {test_source} --target absent", "--target absent does not exist"),
        (f"{TEST} --columns source,target", "--columns needs --test"),
        (f"{TEST} --beam 0", "--beam"),
        (f"{TEST} --pieces", "--pieces is for classifiers"),
        (f"{TEST} --test-labels {{test_target}}", "--test-labels is for classifiers"),
    ],
)
def test_what_a_translator_cannot_be_scored_on(
    options: str, words: str, toy: Toy, translator: Path
) -> None:
    before = (translator / "scores.json").read_bytes()
    ran = run(f"evaluate {translator} {options}", **vars(toy))
    assert ran.code == 2
    assert words in ran.err
    assert (translator / "scores.json").read_bytes() == before


def test_only_translators_are_scored_on_pairs(
    toy: Toy, translator: Path, warm: Path, base: Path, world: World
) -> None:
    for other, words in ((warm, "a classifier"), (base, "a causal language model")):
        assert f"--source is for translators; {other} is {words}" in refuse(
            f"evaluate {other} {TEST}", **vars(toy)
        )
        assert f"{other} is {words}" in refuse(
            f"evaluate {translator} {TEST} --against {other}", **vars(toy)
        )
    ran = run(f"evaluate {warm} --test {world.test} --against {translator}")
    assert "--against is for translators" in ran.said


def test_the_verbs_in_python(toy: Toy, translator: Path, tmp_path: Path) -> None:
    lines = _lines(f"translate {translator} {toy.test_source}")
    machine = {"threads": 1, "precision": "fp32"}
    found = warmstart.translate(run=str(translator), file=str(toy.test_source), **machine)
    assert [one.translations[0].text for one in found] == lines
    out = tmp_path / "found.txt"
    warmstart.translate(run=str(translator), file=str(toy.test_source), out=str(out), **machine)
    assert out.read_text().splitlines() == lines
    assert [one.source for one in found] == toy.test_source.read_text().splitlines()
    loaded = warmstart.load(translator, **machine)
    best = loaded.translate(["1 2", ""], beam=4, n_best=2)
    assert [len(one) for one in best] == [2, 2]
    assert best[0][0].text == _lines(f"translate {translator} --beam 4", b"1 2\n")[0]
    scores = warmstart.evaluate(
        run=str(translator), source=str(toy.test_source), target=str(toy.test_target), **machine
    )
    assert scores.scores["sentences"] == len(lines)
    with pytest.raises(warmstart.WarmstartError, match="--beam"):
        loaded.translate(["1"], beam=0)


def test_a_list_is_translated_not_one_sentence(translator: Path) -> None:
    with pytest.raises(warmstart.WarmstartError, match="a list of texts, not one"):
        warmstart.load(translator).translate("1 2")


@pytest.mark.parametrize("words", ["--length-penalty 1e300", "--beam 100000000", "--threads 99999"])
def test_what_no_machine_can_do_is_refused(toy: Toy, translator: Path, words: str) -> None:
    assert words.split()[0] in refuse(f"translate {translator} {toy.test_source} {words}")
