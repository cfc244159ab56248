"""Sentences through a translator: independent of their batch, and in order."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import warmstart
from shapes import TINY
from warmstart.decoding import translator as module
from warmstart.decoding.beam import Hypothesis, SpecialIds, beam_search
from warmstart.decoding.engines import Engine, fast_engine, plain_engine, translate_ids
from warmstart.decoding.translator import SentenceDecoder, Translation
from warmstart.errors import WarmstartError
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.using import Beam
from warmstart.tokenization.backends import TokenizerPair
from warmstart.tokenization.tokenizer import Tokenizer

SHAPE = replace(TINY, decoder_depth=2, norm_position="pre")
CPU = Runtime(torch.device("cpu"))
SPECIAL = SpecialIds(bos=1, eos=2, suppressed=[0, 1])
BEAM = Beam(beam=2, batch_tokens=64)
WORDS = ["Ce", "livre", "est", "un", "ennui", "une", "merveille"]


def _sources(num: int, vocab_size: int = 23, longest: int = 18) -> list[list[int]]:
    draw = torch.Generator().manual_seed(5)
    sizes = torch.randint(1, longest, (num,), generator=draw).tolist()
    return [torch.randint(3, vocab_size, (n,), generator=draw).tolist() for n in sizes]


def _random(shape: ModelConfig, eos: int = 2, std: float = 0.5) -> Translator:
    torch.manual_seed(4)
    model = Translator(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=std)
        model.head.output.bias[eos] -= 3.0  # or most translations are empty
    return model.eval()


def _in_batches(
    model: Translator, sources: Sequence[list[int]], size: int, beam: Beam, n_best: int = 1
) -> list[list[Hypothesis]]:
    found = []
    for start in range(0, len(sources), size):
        batch = sources[start : start + size]
        limits = [len(ids) + 3 for ids in batch]
        found += translate_ids(plain_engine(model, CPU), batch, limits, SPECIAL, beam, n_best)
    return found


@torch.inference_mode()
def _uncached(
    model: Translator, source: list[int], limit: int, beam: Beam, n_best: int
) -> list[Hypothesis]:
    """Search with the whole prefix read anew at every step, one sentence at a time."""

    def step(prefixes: Tensor, _: Tensor) -> Tensor:
        repeated = torch.tensor([source] * len(prefixes))
        return model(repeated, None, prefixes)[:, -1].log_softmax(-1)

    return beam_search(step, [limit], SPECIAL, beam, n_best)[0]


@pytest.mark.parametrize(("width", "n_best"), [(1, 1), (4, 3)], ids=["greedy", "beam"])
def test_cached_decoding_equals_uncached(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], width: int, n_best: int
) -> None:
    beam = Beam(beam=width)
    model = randomised(Translator(replace(some_shape, decoder_depth=2))).eval()
    sources = _sources(6, longest=10)
    found = _in_batches(model, sources, 6, beam, n_best)
    for source, best in zip(sources, found, strict=True):
        expected = _uncached(model, source, len(source) + 3, beam, n_best)
        assert [one.ids for one in best] == [one.ids for one in expected]
        for one, other in zip(best, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-10)


@pytest.mark.parametrize("beam", [Beam(beam=1), Beam(beam=5)], ids=["greedy", "beam"])
def test_translations_do_not_depend_on_the_batch(beam: Beam) -> None:
    model, sources = _random(SHAPE).double(), _sources(70)
    alone = _in_batches(model, sources, 1, beam)
    assert len({best[0].ids for best in alone}) > 40
    for size in (7, 64):
        found = _in_batches(model, sources, size, beam)
        assert [best[0].ids for best in found] == [best[0].ids for best in alone]
        for one, other in zip(found, alone, strict=True):
            assert one[0].score == pytest.approx(other[0].score, abs=1e-10)


def test_in_single_precision_nearly_all_are_the_same() -> None:
    model, sources = _random(SHAPE), _sources(150, longest=8)
    alone = _in_batches(model, sources, 1, Beam(beam=1))
    for size in (7, 64):
        found = _in_batches(model, sources, size, Beam(beam=1))
        same = [a[0].ids == b[0].ids for a, b in zip(alone, found, strict=True)]
        assert sum(same) >= 0.999 * len(same)


@pytest.fixture(scope="module")
def decoder(tokenizer: Tokenizer) -> SentenceDecoder:
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size, max_length=24)
    model = _random(shape, tokenizer.eos).double()
    return SentenceDecoder(plain_engine(model, CPU), TokenizerPair(tokenizer, tokenizer))


def _texts(num: int) -> list[str]:
    draw = torch.Generator().manual_seed(2)
    sizes = torch.randint(1, 8, (num,), generator=draw).tolist()
    picks = [torch.randint(len(WORDS), (n,), generator=draw).tolist() for n in sizes]
    return [" ".join(WORDS[k] for k in pick) for pick in picks]


def test_order_is_kept_and_budgets_change_nothing(decoder: SentenceDecoder) -> None:
    texts = _texts(30)
    found = decoder.translate(texts, BEAM)
    assert len(found) == 30
    backward = decoder.translate(texts[::-1], BEAM)[::-1]
    assert [best[0].text for best in found] == [best[0].text for best in backward]
    for budget in (1, 17, 100_000):
        other = decoder.translate(texts, replace(BEAM, batch_tokens=budget))
        assert [best[0].text for best in other] == [best[0].text for best in found]


def test_the_budget_bounds_every_batch(
    decoder: SentenceDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def noting(engine: Engine, sources: Sequence[Sequence[int]], *rest: Any) -> Any:
        sizes.append((len(sources), max(map(len, sources))))
        return translate_ids(engine, sources, *rest)

    monkeypatch.setattr(module, "translate_ids", noting)
    decoder.translate(_texts(60), BEAM)
    assert len(sizes) > 3
    assert all(rows == 1 or rows * longest <= 64 for rows, longest in sizes)
    assert [longest for _, longest in sizes] == sorted((n for _, n in sizes), reverse=True)


def test_empty_texts_stay_empty(decoder: SentenceDecoder) -> None:
    texts = ["", "a dog", "   ", "\t", "a cat"]
    found = decoder.translate(texts, BEAM, n_best=2)
    for row in (0, 2, 3):
        assert found[row] == [Translation("", 0.0)] * 2
    alone = decoder.translate(["a dog"], BEAM, n_best=2)[0]
    assert [one.text for one in found[1]] == [one.text for one in alone]
    assert decoder.translate([], BEAM) == []


def test_an_overlong_text_is_translated_in_parts(decoder: SentenceDecoder) -> None:
    long = "the dog runs. " * 30
    (found,) = decoder.translate([long.strip()], BEAM)
    parts = decoder.split(long.strip())
    assert " ".join(parts) == long.strip()
    assert len(parts) > 3
    assert all(part.endswith(".") for part in parts)
    assert found[0].text == " ".join(best[0].text for best in decoder.translate(parts, BEAM))


def test_no_word_is_lost_where_no_sentence_ends(decoder: SentenceDecoder) -> None:
    long = " ".join(WORDS * 12)
    parts = decoder.split(long)
    assert " ".join(parts) == long
    assert all(len(decoder.source.encode([part])[0]) <= 22 for part in parts)


@pytest.mark.parametrize(
    "text",
    ["x" * 500, "dog " + "y" * 90 + " cat.", "我们看见一只狗。" * 40, "a" * 60 + ". " + "b" * 60],
    ids=["letters", "among-words", "chinese", "two"],
)
def test_a_text_without_spaces_is_split_too(decoder: SentenceDecoder, text: str) -> None:
    parts = decoder.split(text)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
    assert all(0 < len(decoder.source.encode([part])[0]) <= 22 for part in parts)
    assert len(decoder.translate([text], BEAM)) == 1


def test_a_chinese_text_is_split_after_its_full_stops(decoder: SentenceDecoder) -> None:
    parts = decoder.split("狗。猫！" * 20)
    assert all(part[-1] in "。！" for part in parts)


def test_an_overlong_text_is_refused_where_asked(decoder: SentenceDecoder) -> None:
    with pytest.raises(WarmstartError, match=r"sentence 2, which begins 'the dog .*reads 22"):
        decoder.translate(["a cat", "the dog runs. " * 30], BEAM, overlong="refuse")
    with pytest.raises(WarmstartError, match=r"sentence 7, which begins 'the dog "):
        decoder.translate(["the dog runs. " * 30], BEAM, overlong="refuse", first_number=7)
    short = decoder.translate(["a cat"], BEAM, overlong="refuse")
    assert short == decoder.translate(["a cat"], BEAM)
    with pytest.raises(WarmstartError, match="overlong 'cut' is unknown; known: refuse, split"):
        decoder.translate(["a cat"], BEAM, overlong="cut")  # type: ignore[arg-type]


def test_translations_are_single_lines_without_marks(decoder: SentenceDecoder) -> None:
    found = decoder.translate(_texts(40), replace(BEAM, beam=4), n_best=4)
    for best in found:
        assert len(best) == 4
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        for one in best:
            assert not re.search(r"[\r\n]|<s>|</s>|<pad>|<mask>", one.text)


def test_line_ends_that_a_model_writes_become_spaces(
    decoder: SentenceDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tuple(decoder.target.encode(["one\r\ntwo\nthree"])[0])
    written = [[Hypothesis(ids, -1.0, -1.0)]]
    monkeypatch.setattr(module, "translate_ids", lambda *_: written)
    assert decoder.translate(["a dog"], BEAM)[0][0].text == "one two three"


@pytest.mark.parametrize(("ratio", "share"), [(0.01, 0), (0.5, 3), (1.5, 10), (9.0, 99)])
def test_a_ratio_limits_the_length(
    decoder: SentenceDecoder, monkeypatch: pytest.MonkeyPatch, ratio: float, share: int
) -> None:
    given: list[int] = []

    def noting(engine: Engine, sources: Any, limits: Sequence[int], *rest: Any) -> Any:
        given.extend(limits)
        return translate_ids(engine, sources, limits, *rest)

    monkeypatch.setattr(module, "translate_ids", noting)
    assert len(decoder.source.encode(["Ce livre est un ennui"])[0]) + 2 == 7
    decoder.translate(["Ce livre est un ennui"], replace(BEAM, max_ratio=ratio))
    assert given == [min(23, share + module.EXTRA_TOKENS)]


def test_ids_that_no_tokenizer_has_are_suppressed(tokenizer: Tokenizer) -> None:
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size + 40, max_length=24)
    model = _random(shape, tokenizer.eos)
    with torch.no_grad():
        model.head.output.bias[tokenizer.vocab_size :] += 50  # the likeliest by far
    engine = plain_engine(model, CPU)
    found = SentenceDecoder(engine, TokenizerPair(tokenizer, tokenizer)).translate(_texts(20), BEAM)
    assert all(best[0].text for best in found)


def test_the_same_model_in_half_precision_still_translates(decoder: SentenceDecoder) -> None:
    half = Runtime(torch.device("cpu"), torch.bfloat16)
    model = _random(decoder.engine.config)
    packed = SentenceDecoder(
        fast_engine(model, half), TokenizerPair(decoder.source, decoder.target)
    )
    assert len(packed.translate(_texts(9), BEAM)) == 9


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"n_best": 3}, "n_best 3 is more than beam 2: widen the beam"),
        ({"n_best": 0}, "n_best 0 is not allowed: it must be at least 1"),
        ({"beam": 0}, "beam 0 is not allowed: it must be at least 1"),
        ({"length_penalty": -1.0}, "length-penalty -1.0 is not allowed"),
        ({"beams": 3}, "translate has no setting 'beams'; did you mean 'beam'?"),
    ],
)
def test_a_beam_is_checked_where_it_is_made(
    keywords: dict[str, Any], said: str, beginner: Path
) -> None:
    with pytest.raises(WarmstartError, match=re.escape(said)):
        warmstart.load(beginner, threads=1).translate(["1 2"], **{"beam": 2, **keywords})
