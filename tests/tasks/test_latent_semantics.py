"""Latent semantic analysis: its units, an even sample of long text, and the file that is kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from warmstart.errors import WarmstartError
from warmstart.tasks import latent_semantics
from warmstart.tasks.latent_semantics import LatentSpace, fit_space, read_space, units_of

TOPICS = [[f"{stem}{number}" for number in range(12)] for stem in ("rain", "gold")]


def documents(num: int = 120) -> list[str]:
    """Return documents of one of two topics, which share a few words."""
    random = np.random.default_rng(0)
    return [" ".join([*random.choice(TOPICS[i % 2], 6), "the", "a"]) for i in range(num)]


def space() -> LatentSpace:
    found = fit_space(documents())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Très BELLES, 2!", ["très", "belles", "très belles", "2", "belles 2"]),
        ("好电影", ["好", "电", "影", "好电", "电影", "好电影"]),
        ("GPT很好", ["gpt", "很", "好", "很好"]),
        ("GPT很好 a b", ["gpt", "很", "好", "很好", "a", "b", "a b"]),
        ("ดี", ["ด", "ี", "ดี"]),  # a vowel sign is no letter of \w
        ("좋은 영화", ["좋은", "영화", "좋은 영화"]),  # Korean has spaces
        ("... !", []),
    ],
)
def test_units_are_words_pairs_of_words_and_without_spaces_ngrams(
    text: str, units: list[str]
) -> None:
    assert list(units_of(text)) == units


def test_the_first_dimension_tells_topics_apart() -> None:
    first = space().vectors([" ".join(topic[:5]) for topic in TOPICS])[:, 0]
    assert first[0] * first[1] < 0
    vectors = space().vectors(documents())
    assert vectors.std(0) == pytest.approx(np.ones(space().num_dimensions), abs=0.02)


def test_unknown_texts_have_zero_vectors() -> None:
    assert not space().vectors(["nothing known", ""]).any()
    assert space().vectors([]).shape == (0, space().num_dimensions)


def test_the_same_text_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        space().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = read_space(tmp_path / "a")
    assert read.words == space().words
    assert np.array_equal(read.vectors(documents(9)), space().vectors(documents(9)))


def test_long_text_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_semantics, "MAX_DOCUMENTS", 10)
    _, kept = latent_semantics._count_units(f"n{i}" for i in range(100))
    assert 5 <= len(kept) <= 10
    units, kept = latent_semantics._count_units(f"n{i}" for i in range(100))
    numbers = [int(units[ids[0]][1:]) for ids in kept]
    assert len(set(np.diff(numbers))) == 1
    assert numbers[0] == 0
    assert numbers[-1] > 80


LOG = [f"server {i} answered the request in {i} ms" for i in range(300)]  # all nearly the same


@pytest.mark.parametrize("texts", [[], ["one"], ["a", "b", "c"], ["same"] * 9, [""] * 5, LOG])
def test_text_without_structure_gives_no_space(texts: list[str]) -> None:
    assert fit_space(texts) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_file_of_other_types_is_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    file = tmp_path / "lsa.safetensors"
    space().save(file)
    tensors = load_file(file)
    for changed in (tensors["projection"].to(dtype), tensors["projection"][:, :0].clone()):
        save_file({**tensors, "projection": changed}, file)
        with pytest.raises(WarmstartError, match="its parts do not fit"):
            read_space(file)


@pytest.mark.parametrize(
    "change",
    [
        {"words": torch.tensor([255, 254], dtype=torch.uint8)},
        {"weights": torch.zeros(3)},
        {"projection": torch.zeros(3, 2, dtype=torch.float16)},
        {"projection": torch.zeros(3, 2)},
        {"projection": None},
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    change: dict[str, torch.Tensor | None], tmp_path: Path
) -> None:
    file = tmp_path / "lsa.safetensors"
    space().save(file)
    tensors = {**load_file(file), **change}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, file)
    with pytest.raises(WarmstartError, match="is no latent semantic analysis"):
        read_space(file)
