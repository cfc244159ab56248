from dataclasses import replace
from typing import get_args

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from shapes import any_architecture
from warmstart.model.count import (
    Layer,
    count_backbone,
    count_classification_head,
    count_language_head,
    count_next_sentence,
    count_pretraining_heads,
    legend,
)
from warmstart.model.models import Classifier, LanguageModel
from warmstart.settings.model import PRESETS, Ablation, ModelConfig

shapes = any_architecture(
    attention=st.sampled_from(["causal", "bidirectional"]),
    ablated=st.sampled_from(get_args(Ablation)),
)


def _total(*parts: list[Layer]) -> int:
    return sum(layer.count for part in parts for layer in part)


def _built(module: nn.Module, trainable: bool = False) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable)


@settings(max_examples=60)
@given(shapes, st.integers(1, 9))
def test_closed_form_equals_the_built_model(shape: ModelConfig, num_labels: int) -> None:
    with torch.device("meta"):
        model = LanguageModel(shape)
        pretrained = LanguageModel(shape, has_next_sentence=shape.segments > 1)
        classifier = Classifier(shape, num_labels, "mean")
    backbone, head = count_backbone(shape), count_language_head(shape)
    assert _total(backbone) == _built(model.backbone)
    assert _total(backbone, head) == _built(model)
    assert _total(backbone, count_pretraining_heads(shape)) == _built(pretrained)
    assert _total(count_classification_head(shape, num_labels)) == _built(classifier.head)
    assert all(_worked_out(layer, shape, num_labels) == layer.count for layer in backbone + head)


def _worked_out(layer: Layer, shape: ModelConfig, num_labels: int) -> int:
    """Work a formula out with the letters of the legend."""
    letters = {"V": shape.vocab_size, "D": shape.width, "F": shape.ffn_width, "L": shape.max_length}
    letters["C"] = num_labels
    total = 0
    for term in layer.formula.split(" (")[0].split(" + "):
        product = 1
        for factor in term.split("·"):
            digits = "".join(c for c in factor if c.isdigit())
            product *= int(digits or 1)
            for letter in factor[len(digits) :]:
                product *= letters[letter]
        total += product
    return total


@settings(max_examples=40)
@given(shapes)
def test_layers_are_named_as_in_the_model(shape: ModelConfig) -> None:
    with torch.device("meta"):
        backbone = LanguageModel(shape).backbone
    counted = {layer.name: layer.count for layer in count_backbone(shape) if layer.count}
    for name, count in counted.items():
        assert _built(backbone.get_submodule(name)) == count


def test_lab_has_the_numbers_of_the_course() -> None:
    lab = PRESETS["lab"]
    with torch.device("meta"):
        model, classifier = LanguageModel(lab), Classifier(lab, 2, "last")
    assert _total(count_backbone(lab), count_pretraining_heads(lab)) == _built(model) == 21_018_401
    assert _total(count_backbone(lab), count_classification_head(lab, 2)) == 10_968_602
    assert _built(classifier) == 10_968_602
    classifier.backbone.requires_grad_(False)
    assert _built(classifier, trainable=True) == 402


def test_bert_base_has_the_numbers_of_the_paper() -> None:
    bert = PRESETS["bert-base"]
    with torch.device("meta"):
        model = LanguageModel(bert, has_next_sentence=True)
        classifier = Classifier(bert, 2, "cls")
    assert _total(count_backbone(bert)) == _built(model.backbone) == 109_482_240
    assert (
        _total(count_backbone(bert), count_pretraining_heads(bert)) == _built(model) == 110_106_428
    )
    classifier.backbone.requires_grad_(False)  # the pooler is frozen with the backbone
    assert _built(classifier, trainable=True) == 768 * 2 + 2


def test_small_presets_stay_small() -> None:
    sizes = {
        name: _total(count_backbone(shape), count_pretraining_heads(shape))
        for name, shape in PRESETS.items()
    }
    assert sizes["modern-small"] <= 32_000_000
    assert sizes["tiny"] < 2_000_000
    for name, shape in PRESETS.items():
        with torch.device("meta"):
            assert _built(LanguageModel(shape, shape.segments > 0)) == sizes[name]


def test_legend_names_every_letter(tiny: ModelConfig) -> None:
    text = legend(replace(tiny, vocab_size=12_345))
    assert "12,345" in text
    assert all(f"{letter} = " in text for letter in "VDFLC")
    assert count_next_sentence(tiny)[0].count == 34
