"""Whole models: heads, and a translator against torch.nn.Transformer and its closed form."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from command_line import succeed
from shapes import TINY, any_architecture
from warmstart.batching.batches import pad_texts
from warmstart.model.attention import KeyValueCache
from warmstart.model.backbone import Layout
from warmstart.model.count import count_translator
from warmstart.model.models import Classifier, EncoderOutput, LanguageModel, Translator, pool
from warmstart.settings.model import PRESETS, ModelConfig


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


EXACT = {"rtol": 0.0, "atol": 1e-10}


Pooled = pytest.mark.parametrize("pooling", ["cls", "last", "mean"])


TEXTS = [[1, 5, 6, 7, 2], [1, 2], [1, 9, 2], [1, *range(3, 20), 2]]


def _logits(model: Classifier, rows: list[int], pad: int) -> Tensor:
    batch = pad_texts(TEXTS, [0] * len(TEXTS), rows, pad)
    return model(batch.ids, Layout(is_token=batch.is_token))


@Pooled
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_labels_do_not_depend_on_padding_or_company(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], attention: Any, pooling: Any
) -> None:
    shape = replace(some_shape, attention=attention, pooler=True)
    model: Classifier = randomised(Classifier(shape, 3, pooling)).eval()
    together = _logits(model, [0, 1, 2, 3], pad=0)
    assert_close(_logits(model, [3, 2, 1, 0], pad=22).flip(0), together, **EXACT)
    for row in range(4):
        assert_close(_logits(model, [row], pad=0)[0], together[row], **EXACT)


def test_pooling_by_hand(tiny: ModelConfig) -> None:
    backbone = Classifier(tiny, 2, "mean").backbone
    hidden = torch.randn(2, 4, 16)
    is_token = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert torch.equal(pool(backbone, hidden, is_token, "cls"), hidden[:, 0])
    assert torch.equal(pool(backbone, hidden, is_token, "last"), hidden[[0, 1], [2, 0]])
    expected = torch.stack([hidden[0, :3].mean(0), hidden[1, 0]])
    assert_close(pool(backbone, hidden, is_token, "mean"), expected)
    assert_close(pool(backbone, hidden, None, "mean"), hidden.mean(1))
    assert torch.equal(pool(backbone, hidden, None, "last"), hidden[:, -1])


@Pooled
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_a_text_of_padding_alone_gives_no_nan(
    tiny: ModelConfig, pooling: Any, attention: Any
) -> None:
    model = Classifier(replace(tiny, attention=attention), 2, pooling)
    is_token = torch.tensor([[True, True, True], [False, False, False]])
    logits = model(torch.ones(2, 3, dtype=torch.long), Layout(is_token=is_token))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_language_head_is_linear_over_the_vocabulary(
    tiny: ModelConfig, randomised: Callable[[Any], Any], tied: bool, transform: bool
) -> None:
    shape = replace(tiny, tied=tied, transform=transform, activation="gelu")
    model: LanguageModel = randomised(LanguageModel(shape)).eval()
    ids = torch.tensor([[1, 2, 3]])
    hidden = model.backbone(ids)
    if transform:
        dense, norm = model.head.transform.dense, model.head.transform.norm
        hidden = norm(F.gelu(dense(hidden)))
    weight = model.backbone.embed.weight if tied else model.head.output.weight
    assert_close(model(ids), hidden @ weight.T + model.head.output.bias, **EXACT)


def test_a_tied_tensor_is_stored_and_counted_once(tiny: ModelConfig) -> None:
    model = LanguageModel(replace(tiny, tied=True, biases=False))
    assert not any(name.startswith("head.") for name in model.state_dict())
    model(torch.tensor([[1, 2]])).logsumexp(-1).sum().backward()
    grad = model.backbone.embed.weight.grad
    assert grad is not None
    assert (grad.abs().sum(1) > 0).all()  # rows that were only predicted learn too


def test_dropout_before_the_classification_head(tiny: ModelConfig) -> None:
    model = Classifier(tiny, 2, "mean", dropout=0.5)
    ids = torch.ones(1, 4, dtype=torch.long)
    assert not torch.equal(model(ids, Layout()), model(ids, Layout()))
    model.eval()
    assert torch.equal(model(ids, Layout()), model(ids, Layout()))


SHAPE = replace(TINY, decoder_depth=3, tied=True)


SOURCE = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0], [1, 9, 10, 2, 0]])


IS_TOKEN = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool()


TARGET = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16], [1, 17, 18, 19]])


@pytest.fixture
def any_translator(some_shape: ModelConfig, randomised: Callable[[Any], Any]) -> Translator:
    return randomised(Translator(replace(some_shape, decoder_depth=2)))


def _layer(ours: nn.Module) -> dict[str, Tensor]:
    """Return a block's weights under the names torch has for them."""
    own = ours.state_dict()
    names = {"attend": "self_attn", "cross": "multihead_attn"}
    norms = ["attend", "cross", "ffn"] if "cross.query.weight" in own else ["attend", "ffn"]
    weights = {}
    for kind in ("weight", "bias"):
        weights[f"linear1.{kind}"] = own[f"ffn.inner.{kind}"]
        weights[f"linear2.{kind}"] = own[f"ffn.outer.{kind}"]
        for number, norm in enumerate(norms, 1):
            weights[f"norm{number}.{kind}"] = own[f"norm_{norm}.{kind}"]
        for name in norms[:-1]:
            weights[f"{names[name]}.out_proj.{kind}"] = own[f"{name}.output.{kind}"]
        weights[f"self_attn.in_proj_{kind}"] = own[f"attend.project.{kind}"]
        if "cross" in norms:
            both = [own[f"cross.query.{kind}"], own[f"cross.project.{kind}"]]
            weights[f"multihead_attn.in_proj_{kind}"] = torch.cat(both)
    return weights


def _theirs(model: Translator) -> nn.Transformer:
    """Return torch's own encoder-decoder with the same weights."""
    config = model.config
    theirs = nn.Transformer(
        config.width,
        config.heads,
        config.depth,
        config.decoder_depth,
        config.ffn_width,
        dropout=0.0,
        batch_first=True,
        norm_first=config.norm_position == "pre",
        dtype=torch.float64,
    )
    for ours, other in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for block, layer in zip(ours.blocks, other.layers, strict=True):
            layer.load_state_dict(_layer(block))
        if config.norm_position == "pre":
            other.norm.load_state_dict(ours.norm_final.state_dict())
        else:  # norms stand at the end of each block already
            other.norm = None
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("is_padded", [False, True], ids=["full", "padded"])
def test_equals_torch(
    randomised: Callable[[Any], Any], norm_position: str, is_padded: bool
) -> None:
    model = randomised(Translator(replace(SHAPE, norm_position=norm_position)))
    theirs = _theirs(model)
    is_token = IS_TOKEN if is_padded else None
    hidden = model.decode(TARGET, model.encode(SOURCE, is_token))

    def embedded(ids: Tensor) -> Tensor:
        scaled = model.embedding[ids] * math.sqrt(model.config.width)
        return scaled + model.encoder.sinusoids[: ids.shape[1]]

    T = TARGET.shape[1]
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    padding = None if is_token is None else ~is_token
    expected = theirs(
        embedded(SOURCE),
        embedded(TARGET),
        tgt_mask=later,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    assert_close(hidden, expected, **EXACT)
    grad = torch.randn_like(hidden)
    ours = torch.autograd.grad(hidden, model.embedding, grad, retain_graph=True)
    other = torch.autograd.grad(expected, model.embedding, grad, retain_graph=True)
    assert_close(ours, other, **EXACT)
    hidden.backward(grad)
    expected.backward(grad)
    block, layer = model.decoder.blocks[0], theirs.decoder.layers[0]
    both = torch.cat([block.cross.query.weight.grad, block.cross.project.weight.grad])
    assert_close(both, layer.multihead_attn.in_proj_weight.grad, **EXACT)
    first, last = model.encoder.blocks[0], theirs.encoder.layers[0]
    assert_close(first.ffn.inner.weight.grad, last.linear1.weight.grad, **EXACT)


shapes = any_architecture(decoder_depth=st.integers(1, 3), output_bias=st.booleans())


@settings(max_examples=60)
@given(shape=shapes, own=st.integers(1, 30), sharing=st.sampled_from(["shared", "same", "own"]))
def test_closed_form_equals_the_built_model(shape: ModelConfig, own: int, sharing: str) -> None:
    if sharing != "shared":
        shape = replace(shape, shared=False, target_vocab_size=own if sharing == "own" else 0)
    with torch.device("meta"):
        model = Translator(shape)
    layers = count_translator(shape)
    assert sum(layer.count for layer in layers) == sum(p.numel() for p in model.parameters())
    assert len({layer.name for layer in layers}) == len(layers)


@pytest.mark.parametrize(
    ("preset", "number"), [("vaswani-base", 63_082_496), ("vaswani-big", 214_245_376)]
)
def test_the_papers_models_have_the_numbers_they_should(preset: str, number: int) -> None:
    found = succeed(f"params {preset} --json").json
    assert found["total"] == found["trainable"] == number
    assert sum(layer["count"] for layer in found["layers"]) == number
    with torch.device("meta"):
        model = Translator(PRESETS[preset])
    assert sum(p.numel() for p in model.parameters()) == number


def test_three_ways_to_tie_and_what_each_costs() -> None:
    V, D = SHAPE.vocab_size, SHAPE.width
    shapes = {"tied": SHAPE, "untied": replace(SHAPE, tied=False)}
    sizes = {
        name: sum(layer.count for layer in count_translator(shape))
        for name, shape in shapes.items()
    }
    assert sizes["untied"] - sizes["tied"] == V * D
    apart = sum(layer.count for layer in count_translator(replace(SHAPE, shared=False)))
    assert apart - sizes["tied"] == V * D
    model = Translator(SHAPE)
    assert model.head.output.weight is None
    assert not hasattr(model.decoder, "embed")


def test_separate_vocabularies_have_their_own_sizes() -> None:
    model = Translator(replace(SHAPE, shared=False, target_vocab_size=31))
    target = TARGET.clone()
    target[0, 1] = 30
    assert model(SOURCE, IS_TOKEN, target).shape == (3, 4, 31)


def test_what_stands_in_the_padding_changes_nothing(any_translator: Translator) -> None:
    plain = any_translator(SOURCE, IS_TOKEN, TARGET)
    other = any_translator(SOURCE.masked_fill(~IS_TOKEN, 22), IS_TOKEN, TARGET)
    assert_close(plain, other, **EXACT)


def test_a_pair_is_read_alike_alone_and_beside_longer_ones(any_translator: Translator) -> None:
    together = any_translator(SOURCE, IS_TOKEN, TARGET)
    for row in range(len(SOURCE)):
        size = int(IS_TOKEN[row].sum())
        alone = any_translator(SOURCE[row : row + 1, :size], None, TARGET[row : row + 1])
        assert_close(together[row : row + 1], alone, **EXACT)


def test_more_target_after_the_end_changes_nothing_before(any_translator: Translator) -> None:
    longer = torch.cat([TARGET, torch.zeros(3, 3, dtype=torch.long)], 1)
    assert_close(
        any_translator(SOURCE, IS_TOKEN, longer)[:, :4],
        any_translator(SOURCE, IS_TOKEN, TARGET),
        **EXACT,
    )


@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_target_position_never_sees_later_ones(any_translator: Translator, position: int) -> None:
    edited = TARGET.clone()
    edited[:, position] = 20
    before = any_translator(SOURCE, IS_TOKEN, TARGET)
    after = any_translator(SOURCE, IS_TOKEN, edited)
    assert_close(before[:, :position], after[:, :position], **EXACT)
    assert not torch.allclose(before[:, position:], after[:, position:])


def test_every_source_token_is_seen_by_every_target_position(any_translator: Translator) -> None:
    edited = SOURCE.clone()
    edited[:, 1] = 20
    before = any_translator(SOURCE, IS_TOKEN, TARGET)
    after = any_translator(edited, IS_TOKEN, TARGET)
    assert ((before - after).abs().amax(-1) > 1e-9).all()


def test_a_source_of_padding_alone_gives_no_nan(any_translator: Translator) -> None:
    logits = any_translator(SOURCE, torch.zeros_like(IS_TOKEN), TARGET)
    assert logits.isfinite().all()
    logits.sum().backward()
    for name, parameter in any_translator.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_position_by_position_equals_all_at_once(any_translator: Translator) -> None:
    encoded = any_translator.encode(SOURCE, IS_TOKEN)
    cache = KeyValueCache(2)
    parts = [any_translator.decode(ids, encoded, cache) for ids in TARGET.split([2, 1, 1], 1)]
    assert_close(torch.cat(parts, 1), any_translator.decode(TARGET, encoded), **EXACT)


def test_the_source_is_projected_once(any_translator: Translator) -> None:
    encoded = any_translator.encode(SOURCE, IS_TOKEN)
    cache = KeyValueCache(2)
    any_translator.decode(TARGET[:, :1], encoded, cache)
    unread = EncoderOutput(torch.full_like(encoded.hidden, torch.nan), IS_TOKEN)
    second = any_translator.decode(TARGET[:, 1:2], unread, cache)
    assert_close(second, any_translator.decode(TARGET, encoded)[:, 1:2], **EXACT)


def test_neighbouring_rows_share_a_source(any_translator: Translator) -> None:
    encoded = any_translator.encode(SOURCE[:2], IS_TOKEN[:2])
    target = torch.cat([TARGET, TARGET.flip(1)])[:4]  # two rows for each source
    repeated = encoded.select(torch.tensor([0, 0, 1, 1]))
    expected = any_translator.decode(target, repeated)
    assert_close(any_translator.decode(target, encoded), expected, **EXACT)
    only_second = encoded.select(torch.tensor([1]))
    assert_close(any_translator.decode(target[2:], only_second), expected[2:], **EXACT)


def test_a_cache_drops_the_sources_that_no_row_continues(any_translator: Translator) -> None:
    encoded = any_translator.encode(SOURCE, IS_TOKEN)
    target = TARGET.repeat_interleave(2, 0)  # two rows for each source
    cache = KeyValueCache(2)
    any_translator.decode(target[:, :3], encoded, cache)
    cache.select(torch.tensor([1, 0, 5, 5]))
    encoded = encoded.select(torch.tensor([0, 2]))
    continued = any_translator.decode(target[[1, 0, 5, 5], 3:], encoded, cache)
    expected = any_translator.decode(target[[1, 0, 5, 5]], encoded)[:, 3:]
    assert_close(continued, expected, **EXACT)
    assert all(len(keys) == 2 for keys, _ in cache.source.values())


def test_attention_weights_are_returned_where_asked(any_translator: Translator) -> None:
    received: dict[str, list[Tensor]] = {"encoder": [], "cross": [], "decoder": []}
    encoded = any_translator.encode(SOURCE, IS_TOKEN, received["encoder"])
    any_translator.decode(TARGET, encoded, None, received["decoder"], received["cross"])
    sizes = {"encoder": (5, 5), "cross": (4, 5), "decoder": (4, 4)}
    for part, layers in received.items():
        assert [tuple(weights.shape[2:]) for weights in layers] == [sizes[part]] * 2
        assert_close(layers[0].sum(-1), torch.ones_like(layers[0].sum(-1)))
    for weights in (*received["encoder"], *received["cross"]):
        assert (weights.masked_select(~IS_TOKEN.view(3, 1, 1, 5)) == 0).all()
    assert (received["decoder"][0].triu(1) == 0).all()
