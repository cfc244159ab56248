"""Sentences through a translator: independent of their batch, and in order."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from warmstart.decoding import translator as module
from warmstart.decoding.beam import Beam, Hypothesis, SpecialIds, beam_search
from warmstart.decoding.engines import Engine, fast_engine, plain_engine, translate_ids
from warmstart.decoding.translator import BeamTranslator, Translation, TranslationSearch
from warmstart.errors import WarmstartError
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

SHAPE = ModelConfig(
    vocab_size=23,
    width=16,
    depth=2,
    heads=2,
    ffn_width=24,
    max_length=32,
    dropout=0.0,
    decoder_depth=2,
    norm_position="pre",
)
CPU = Runtime(torch.device("cpu"))
SPECIAL = SpecialIds(bos=1, eos=2, suppressed=[0, 1])
SEARCH = TranslationSearch(beam=Beam(width=2), batch_tokens=64)
WORDS = ["the", "big", "small", "dog", "cat", "sees", "runs", "to", "a", "house", "and"]


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
    model: Translator, sources: Sequence[list[int]], size: int, beam: Beam
) -> list[list[Hypothesis]]:
    found = []
    for start in range(0, len(sources), size):
        batch = sources[start : start + size]
        limits = [len(ids) + 3 for ids in batch]
        found += translate_ids(plain_engine(model, CPU), batch, limits, SPECIAL, beam)
    return found


@torch.inference_mode()
def _uncached(model: Translator, source: list[int], limit: int, beam: Beam) -> list[Hypothesis]:
    """Search with the whole prefix read anew at every step, one sentence at a time."""

    def step(prefixes: Tensor, _: Tensor) -> Tensor:
        repeated = torch.tensor([source] * len(prefixes))
        return model(repeated, None, prefixes)[:, -1].log_softmax(-1)

    return beam_search(step, [limit], SPECIAL, beam)[0]


@pytest.mark.parametrize("beam", [Beam(width=1), Beam(width=4, num_best=3)], ids=["greedy", "beam"])
def test_cached_decoding_equals_uncached(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], beam: Beam
) -> None:
    model = randomised(Translator(replace(some_shape, decoder_depth=2))).eval()
    sources = _sources(6, longest=10)
    found = _in_batches(model, sources, 6, beam)
    for source, best in zip(sources, found, strict=True):
        expected = _uncached(model, source, len(source) + 3, beam)
        assert [one.ids for one in best] == [one.ids for one in expected]
        for one, other in zip(best, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-10)


@pytest.mark.parametrize("beam", [Beam(width=1), Beam(width=5)], ids=["greedy", "beam"])
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
    alone = _in_batches(model, sources, 1, Beam(width=1))
    for size in (7, 64):
        found = _in_batches(model, sources, size, Beam(width=1))
        same = [a[0].ids == b[0].ids for a, b in zip(alone, found, strict=True)]
        assert sum(same) >= 0.999 * len(same)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([" ".join(WORDS[k:] + WORDS[:k]) for k in range(10)], "bpe", 300)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> BeamTranslator:
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size, max_length=24)
    model = _random(shape, tokenizer.eos).double()
    return BeamTranslator(plain_engine(model, CPU), tokenizer, tokenizer, SEARCH)


def _texts(num: int) -> list[str]:
    draw = torch.Generator().manual_seed(2)
    sizes = torch.randint(1, 8, (num,), generator=draw).tolist()
    picks = [torch.randint(len(WORDS), (n,), generator=draw).tolist() for n in sizes]
    return [" ".join(WORDS[k] for k in pick) for pick in picks]


def test_order_is_kept_and_budgets_change_nothing(translator: BeamTranslator) -> None:
    texts = _texts(30)
    found = translator.translate(texts)
    assert len(found) == 30
    backward = translator.translate(texts[::-1])[::-1]
    assert [best[0].text for best in found] == [best[0].text for best in backward]
    for budget in (1, 17, 100_000):
        other = translator.translate(texts, replace(SEARCH, batch_tokens=budget))
        assert [best[0].text for best in other] == [best[0].text for best in found]


def test_the_budget_bounds_every_batch(
    translator: BeamTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def noting(engine: Engine, sources: Sequence[Sequence[int]], *rest: Any) -> Any:
        sizes.append((len(sources), max(map(len, sources))))
        return translate_ids(engine, sources, *rest)

    monkeypatch.setattr(module, "translate_ids", noting)
    translator.translate(_texts(60))
    assert len(sizes) > 3
    assert all(rows == 1 or rows * longest <= 64 for rows, longest in sizes)
    assert [longest for _, longest in sizes] == sorted((n for _, n in sizes), reverse=True)


def test_empty_texts_stay_empty(translator: BeamTranslator) -> None:
    texts = ["", "a dog", "   ", "\t", "a cat"]
    two_best = replace(SEARCH, beam=Beam(width=2, num_best=2))
    found = translator.translate(texts, two_best)
    for row in (0, 2, 3):
        assert found[row] == [Translation("", 0.0)] * 2
    alone = translator.translate(["a dog"], two_best)[0]
    assert [one.text for one in found[1]] == [one.text for one in alone]
    assert translator.translate([]) == []


def test_an_overlong_text_is_translated_in_parts(translator: BeamTranslator) -> None:
    long = "the dog runs. " * 30
    (found,) = translator.translate([long.strip()])
    parts = translator.split(long.strip())
    assert " ".join(parts) == long.strip()
    assert len(parts) > 3
    assert all(part.endswith(".") for part in parts)
    assert found[0].text == " ".join(best[0].text for best in translator.translate(parts))


def test_no_word_is_lost_where_no_sentence_ends(translator: BeamTranslator) -> None:
    long = " ".join(WORDS * 12)
    parts = translator.split(long)
    assert " ".join(parts) == long
    assert all(len(translator.source.encode([part])[0]) <= 22 for part in parts)


@pytest.mark.parametrize(
    "text",
    ["x" * 500, "dog " + "y" * 90 + " cat.", "我们看见一只狗。" * 40, "a" * 60 + ". " + "b" * 60],
    ids=["letters", "among-words", "chinese", "two"],
)
def test_a_text_without_spaces_is_split_too(translator: BeamTranslator, text: str) -> None:
    parts = translator.split(text)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
    assert all(0 < len(translator.source.encode([part])[0]) <= 22 for part in parts)
    assert len(translator.translate([text])) == 1


def test_a_chinese_text_is_split_after_its_full_stops(translator: BeamTranslator) -> None:
    parts = translator.split("狗。猫！" * 20)
    assert all(part[-1] in "。！" for part in parts)


def test_an_overlong_text_is_refused_where_asked(translator: BeamTranslator) -> None:
    strict = replace(SEARCH, splits_overlong=False)
    with pytest.raises(WarmstartError, match=r"sentence 2, which begins 'the dog .*reads 22"):
        translator.translate(["a cat", "the dog runs. " * 30], strict)
    with pytest.raises(WarmstartError, match=r"sentence 7, which begins 'the dog "):
        translator.translate(["the dog runs. " * 30], strict, first_number=7)
    assert translator.translate(["a cat"], strict) == translator.translate(["a cat"])


def test_translations_are_single_lines_without_marks(translator: BeamTranslator) -> None:
    found = translator.translate(_texts(40), replace(SEARCH, beam=Beam(width=4, num_best=4)))
    for best in found:
        assert len(best) == 4
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        for one in best:
            assert not re.search(r"[\r\n]|<s>|</s>|<pad>|<mask>", one.text)


def test_line_ends_that_a_model_writes_become_spaces(
    translator: BeamTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tuple(translator.target.encode(["one\r\ntwo\nthree"])[0])
    written = [[Hypothesis(ids, -1.0, -1.0)]]
    monkeypatch.setattr(module, "translate_ids", lambda *_: written)
    assert translator.translate(["a dog"])[0][0].text == "one two three"


@pytest.mark.parametrize(("ratio", "share"), [(0.01, 0), (0.5, 3), (1.5, 10), (9.0, 99)])
def test_a_ratio_limits_the_length(
    translator: BeamTranslator, monkeypatch: pytest.MonkeyPatch, ratio: float, share: int
) -> None:
    given: list[int] = []

    def noting(engine: Engine, sources: Any, limits: Sequence[int], *rest: Any) -> Any:
        given.extend(limits)
        return translate_ids(engine, sources, limits, *rest)

    monkeypatch.setattr(module, "translate_ids", noting)
    assert len(translator.source.encode(["the dog sees a house"])[0]) + 2 == 7
    translator.translate(["the dog sees a house"], replace(SEARCH, max_ratio=ratio))
    assert given == [min(23, share + module.EXTRA_TOKENS)]


def test_ids_that_no_tokenizer_has_are_suppressed(tokenizer: Tokenizer) -> None:
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size + 40, max_length=24)
    model = _random(shape, tokenizer.eos)
    with torch.no_grad():
        model.head.output.bias[tokenizer.vocab_size :] += 50  # the likeliest by far
    engine = plain_engine(model, CPU)
    found = BeamTranslator(engine, tokenizer, tokenizer).translate(_texts(20))
    assert all(best[0].text for best in found)


def test_the_same_model_in_half_precision_still_translates(translator: BeamTranslator) -> None:
    half = Runtime(torch.device("cpu"), torch.bfloat16)
    model = _random(translator.engine.config)
    packed = BeamTranslator(fast_engine(model, half), translator.source, translator.target)
    assert len(packed.translate(_texts(9))) == 9
