"""A verb that a model does not have is refused with the kind of model that has it."""

import pytest

from warmstart import WarmstartError
from warmstart.commands import VERBS as COMMANDS
from warmstart.tasks.text_model import KINDS, VERBS, TextModel


@pytest.fixture
def model() -> TextModel:
    return TextModel(name="runs/a", description="a model without verbs")


@pytest.mark.parametrize("verb", KINDS)
def test_a_missing_verb_names_who_has_it(verb: str, model: TextModel) -> None:
    with pytest.raises(WarmstartError, match=r"runs/a is a model without verbs; to .* you need a"):
        getattr(model, verb)
    assert not hasattr(model, verb)
    assert KINDS[verb][2].replace("-", "_") in COMMANDS


def test_what_is_no_verb_is_no_attribute(model: TextModel) -> None:
    assert set(VERBS) <= set(KINDS)
    assert model.abilities == ()
    with pytest.raises(AttributeError, match="no attribute 'bake'"):
        model.bake  # noqa: B018
