"""Imported models restore masked words like their own library."""

from collections.abc import Callable
from pathlib import Path

import pytest

import warmstart
from saving import Saver
from warmstart.tasks.text_model import ProbableWord

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("family", "kind"), [("bert", "BertForMaskedLM"), ("roberta", "RobertaForMaskedLM")]
)
def test_probabilities_are_those_of_the_pipeline(
    family: str, kind: str, saved: Saver, tmp_path: Path
) -> None:
    folder = saved(family, kind)
    warmstart.import_model(folder=folder, out=tmp_path / "run")
    pipeline = transformers.pipeline("fill-mask", model=str(folder), top_k=50)
    text = f"{pipeline.tokenizer.mask_token} is good"
    shares = sorted((entry["score"] for entry in pipeline(text)), reverse=True)
    filled = warmstart.load(tmp_path / "run", threads=1).fill_mask([text], top_k=40)[0]
    for choice in filled.masks[0]:  # special tokens are in one list only
        assert choice.probability == pytest.approx(min(shares, key=_distance(choice)), abs=1e-6)
    assert len(filled.masks[0]) == 40


def _distance(choice: ProbableWord) -> Callable[[float], float]:
    return lambda share: abs(share - choice.probability)
