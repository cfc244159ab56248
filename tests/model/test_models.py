from dataclasses import replace

import pytest
import torch

from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.settings.model import ModelConfig


def test_starting_weights_follow_the_random_state(some_shape: ModelConfig) -> None:
    torch.manual_seed(1)
    first = LanguageModel(some_shape)
    torch.manual_seed(1)
    again = LanguageModel(some_shape).state_dict()
    other = LanguageModel(some_shape).state_dict()
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again[name])
        is_drawn = tensor.ndim == 2
        assert torch.equal(tensor, other[name]) != is_drawn


@torch.no_grad()
def test_a_fresh_model_guesses_evenly(some_shape: ModelConfig) -> None:
    model = LanguageModel(replace(some_shape, vocab_size=400, width=64)).eval()
    ids = torch.randint(400, (4, 20))
    logs = model(ids)[:, :-1].log_softmax(-1)
    loss = -logs.gather(2, ids[:, 1:, None]).mean()
    assert float(loss) == pytest.approx(torch.tensor(400.0).log().item(), rel=0.35)


def test_shapes(tiny: ModelConfig) -> None:
    ids = torch.ones(3, 5, dtype=torch.long)
    assert LanguageModel(tiny)(ids).shape == (3, 5, 23)
    assert Classifier(tiny, 7, "mean")(ids, Layout()).shape == (3, 7)
    assert LanguageModel(tiny, has_next_sentence=True).next_sentence.out_features == 2
