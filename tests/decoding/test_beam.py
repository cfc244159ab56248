"""Beam search against a table of probabilities, where every target can be tried."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from one_sample import sample
from warmstart.decoding.beam import (
    Hypothesis,
    SpecialIds,
    Step,
    beam_search,
    penalty,
    top_k,
)
from warmstart.settings.using import Beam

V, BOS, EOS = 4, 0, 3
Table = Callable[[Sequence[int]], Tensor]  # prefix -> log-probabilities (V,)


def _table(seed: int, size: int = V) -> Table:
    """Return log-probabilities that follow from the seed and the prefix alone."""

    def logs(prefix: Sequence[int]) -> Tensor:
        number = seed
        for token in prefix:
            number = (number * 31 + token + 1) % (2**31 - 1)
        draw = torch.Generator().manual_seed(number)
        return (1.5 * torch.randn(size, generator=draw, dtype=torch.float64)).log_softmax(-1)

    return logs


def _stepper(tables: Sequence[Table], width: int, seen: list[int] | None = None) -> Step:
    """Return a step function over several sources that checks what the search tells it."""
    rows: list[tuple[int, list[int]]] = []  # source and prefix of each row

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        nonlocal rows
        given = prefixes.tolist()
        if not rows:
            rows = [(number // width, prefix) for number, prefix in enumerate(given)]
        else:
            sources = [rows[parent][0] for parent in parents.tolist()]
            for prefix, parent in zip(given, parents.tolist(), strict=True):
                assert prefix[:-1] == rows[parent][1]
            rows = list(zip(sources, given, strict=True))
        if seen is not None:
            seen.append(len(rows))
        assert all(
            len({s for s, _ in rows[k : k + width]}) == 1 for k in range(0, len(rows), width)
        )
        return torch.stack([tables[source](prefix) for source, prefix in rows])

    return step


def _search(
    tables: Sequence[Table],
    limits: Sequence[int],
    beam: Beam,
    n_best: int = 1,
    suppressed: Sequence[int] = (),
    seen: list[int] | None = None,
) -> list[list[Hypothesis]]:
    step = _stepper(tables, beam.beam, seen)
    return beam_search(step, limits, SpecialIds(BOS, EOS, suppressed), beam, n_best)


def _every(
    table: Table, limit: int, alpha: float, tokens: Sequence[int] = (0, 1, 2)
) -> list[tuple[float, tuple[int, ...]]]:
    """Return every target up to the limit with its score, the best first."""
    results = []
    for length in range(limit + 1):
        for ids in product(tokens, repeat=length):
            whole = [BOS, *ids, EOS]
            log_prob = sum(float(table(whole[:n])[whole[n]]) for n in range(1, len(whole)))
            results.append((log_prob / ((5 + length + 1) / 6) ** alpha, ids))
    return sorted(results, reverse=True)


def _greedy(table: Table, limit: int) -> tuple[int, ...]:
    ids = [BOS]
    while len(ids) <= limit:
        token = int(table(ids).argmax())
        if token == EOS:
            break
        ids.append(token)
    return tuple(ids[1:])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_wide_enough_is_an_exhaustive_search(seed: int, alpha: float) -> None:
    tables, limits = [_table(100 * seed + n) for n in range(3)], [4, 2, 3]
    results = _search(tables, limits, Beam(beam=130, length_penalty=alpha))
    for table, limit, best in zip(tables, limits, results, strict=True):
        score, ids = _every(table, limit, alpha)[0]
        assert best[0].ids == ids
        assert best[0].score == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_n_best_are_the_n_best_of_all(seed: int) -> None:
    table = _table(seed)
    (results,) = _search([table], [3], Beam(beam=60), 40)
    expected = _every(table, 3, 1.0)
    assert [hypothesis.ids for hypothesis in results] == [
        ids for _, ids in expected
    ]  # 1 + 3 + 9 + 27
    assert [hypothesis.score for hypothesis in results] == pytest.approx(
        [score for score, _ in expected]
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    tables, limits = [_table(50 * seed + n) for n in range(4)], [6, 1, 3, 9]
    results = _search(tables, limits, Beam(beam=1))
    for table, limit, best in zip(tables, limits, results, strict=True):
        assert [hypothesis.ids for hypothesis in best] == [_greedy(table, limit)]
        drawn = sample(
            lambda prefixes, _, table=table: table(prefixes[0].tolist())[None],
            [BOS],
            limit,
            SpecialIds(BOS, EOS),
        )
        assert tuple(drawn) == best[0].ids


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_what_is_found_is_true_sorted_distinct_and_within_its_limit(width: int) -> None:
    tables, limits = [_table(7 * n) for n in range(8)], [1, 2, 3, 4, 5, 6, 9, 12]
    results = _search(tables, limits, Beam(beam=width, length_penalty=0.7), width)
    for table, limit, best in zip(tables, limits, results, strict=True):
        assert 1 <= len(best) <= width
        assert [hypothesis.score for hypothesis in best] == sorted(
            (hypothesis.score for hypothesis in best), reverse=True
        )
        assert len({hypothesis.ids for hypothesis in best}) == len(best)
        for hypothesis in best:
            assert len(hypothesis.ids) <= limit
            assert EOS not in hypothesis.ids
            whole = [BOS, *hypothesis.ids, EOS]
            log_prob = sum(float(table(whole[:n])[whole[n]]) for n in range(1, len(whole)))
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-9)
            assert hypothesis.score == pytest.approx(
                log_prob / penalty(len(hypothesis.ids) + 1, 0.7)
            )


@pytest.mark.parametrize("width", [1, 3])
def test_a_source_is_searched_alike_alone_and_beside_others(width: int) -> None:
    tables, limits = [_table(11 * n) for n in range(7)], [5, 1, 8, 3, 2, 6, 4]
    beam = Beam(beam=width)
    together = _search(tables, limits, beam, width)
    for number in range(7):
        assert _search(tables[number : number + 1], limits[number : number + 1], beam, width) == [
            together[number]
        ]


def test_finished_sources_leave() -> None:
    rows: list[int] = []
    limits = [1, 8, 3]
    tables = [_never_ending(), _never_ending(), _never_ending()]
    results = _search(tables, limits, Beam(beam=2), seen=rows)
    assert [len(best[0].ids) for best in results] == limits
    assert rows == [6, 6, 4, 4, 2, 2, 2, 2, 2]


def _never_ending() -> Table:
    logs = torch.tensor([0.4, 0.3, 0.3 - 1e-9, 1e-9], dtype=torch.float64).log()
    return lambda _: logs.clone()


def test_nothing_to_search_for() -> None:
    assert beam_search(_stepper([], 5), [], SpecialIds(BOS, EOS), Beam()) == []


def test_a_limit_of_nothing_gives_the_empty_target() -> None:
    (results,) = _search([_table(1)], [0], Beam(beam=3))
    assert [hypothesis.ids for hypothesis in results] == [()]
    assert results[0].log_prob == pytest.approx(float(_table(1)([BOS])[EOS]))


@pytest.mark.parametrize("width", [1, 4, 200])
def test_suppressed_tokens_never_appear(width: int) -> None:
    tables = [_table(13 * n) for n in range(6)]
    results = _search(tables, [4] * 6, Beam(beam=width), width, suppressed=[BOS, 2])
    assert all(set(hypothesis.ids) <= {1} for best in results for hypothesis in best)
    if width == 200:
        expected = [_every(table, 4, 1.0, tokens=(1,)) for table in tables]
        assert [[hypothesis.ids for hypothesis in best] for best in results] == [
            [ids for _, ids in every] for every in expected
        ]


def test_the_end_cannot_be_suppressed() -> None:
    results = _search([_table(5)], [3], Beam(beam=2), suppressed=[BOS, EOS])
    assert results == _search([_table(5)], [3], Beam(beam=2), suppressed=[BOS])


def test_a_length_penalty_favours_longer_targets() -> None:
    tables = [_table(17 * n) for n in range(20)]
    lengths = []
    for alpha in (0.0, 1.0, 3.0):
        results = _search(tables, [5] * 20, Beam(beam=400, length_penalty=alpha))
        lengths.append([len(best[0].ids) for best in results])
    for short, longer in pairwise(lengths):
        assert all(a <= b for a, b in zip(short, longer, strict=True))
    assert sum(lengths[0]) < sum(lengths[1]) < sum(lengths[2])


def test_the_penalty_is_the_formula_it_says() -> None:
    assert penalty(7, 0) == 1
    assert penalty(1, 0.6) == 1
    assert penalty(7, 1) == pytest.approx(2)
    assert penalty(13, 0.5) == pytest.approx(math.sqrt(3))


def test_a_wider_beam_than_the_vocabulary_has_tokens() -> None:
    (results,) = _search([_table(3)], [2], Beam(beam=50), 50)
    assert len(results) == 1 + 3 + 9


@pytest.mark.parametrize("k", [1, 2, 7, 10])
@pytest.mark.parametrize("size", [11, 700, 5_003])
def test_the_largest_are_those_that_sorting_finds(k: int, size: int) -> None:
    values = torch.randn(5, size, generator=torch.Generator().manual_seed(size))
    largest, indices = top_k(values, k)
    assert_close(largest, values.topk(k, dim=1).values)
    assert_close(values.gather(1, indices), largest)
