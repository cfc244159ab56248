"""Attention weights: what the model computes, named, and joined to words."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import TEXT, look, make_run
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart import progress
from warmstart.decoding.translator import max_target_tokens
from warmstart.errors import WarmstartError
from warmstart.look.attention import (
    AttentionResult,
    attention_html,
    draw_head,
    draw_heads,
)
from warmstart.model.attention_weights import AttentionMap, Tokens, encode_weights
from warmstart.model.backbone import Backbone
from warmstart.model.layers import Block
from warmstart.model.models import Translator
from warmstart.tasks.vectors import tokens_of
from warmstart.tokenization.backends import TokenizerPair, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

KINDS = ("causal", "masked", "backbone", "classify")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rope"])
def test_rows_sum_to_one_and_obey_the_mask(tokenizer: Tokenizer, kind: Any, positions: str) -> None:
    model, source = make_run(kind, tokenizer, positions=positions)
    found = look(model, source, TEXT)["self"]
    T = len(found.queries)
    assert found.weights.shape == (2, 2, T, T)
    assert found.queries.pieces[0] == "<s>"
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)
    assert found.is_masked.any() == (source.model.attention == "causal")
    assert ((found.weights == 0) == found.is_masked).all()
    joined = found.by_word()
    assert ((joined.weights == 0) == joined.is_masked).all()


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_weights_equal_torch(tokenizer: Tokenizer, attention: str) -> None:
    model, source = make_run("backbone", tokenizer, attention=attention)
    backbone = model.backbone
    assert isinstance(backbone, Backbone)
    inputs: list[Tensor] = []
    theirs = []
    for block in backbone.blocks:
        assert isinstance(block, Block)
        block.attend.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        twin = nn.MultiheadAttention(16, 2, batch_first=True).eval()
        twin.load_state_dict(
            {
                "in_proj_weight": block.attend.project.weight,
                "in_proj_bias": block.attend.project.bias,
                "out_proj.weight": block.attend.output.weight,
                "out_proj.bias": block.attend.output.bias,
            }
        )
        theirs.append(twin)
    found = look(model, source, TEXT)["self"].weights
    T = found.shape[-1]
    forbidden = torch.ones(T, T, dtype=torch.bool).triu(1) if attention == "causal" else None
    for ours, twin, x in zip(found, theirs, inputs, strict=True):
        with torch.inference_mode():
            expected = twin(x, x, x, attn_mask=forbidden, average_attn_weights=False)[1][0]
        assert_close(torch.tensor(ours), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["causal", "masked", "classify"])
def test_looking_does_not_change_the_output(tokenizer: Tokenizer, kind: Any) -> None:
    model, source = make_run(kind, tokenizer)
    backbone, ids = model.backbone, torch.randint(0, source.model.vocab_size, (2, 9))
    assert isinstance(backbone, Backbone)
    kept: list[Tensor] = []
    assert torch.equal(backbone(ids, attention_weights=kept), backbone(ids))
    assert len(kept) == 2


def test_looking_does_not_change_a_translation(tokenizer: Tokenizer) -> None:
    model, run = make_run("translate", tokenizer)
    assert isinstance(model, Translator)
    source = torch.randint(0, run.model.vocab_size, (2, 9))
    target = source[:, :7].flip(1)
    encoder: list[Tensor] = []
    cross: list[Tensor] = []
    decoder: list[Tensor] = []
    seen = model.decode(target, model.encode(source, None, encoder), None, decoder, cross)
    assert torch.equal(seen, model.decode(target, model.encode(source, None)))
    assert [len(kept) for kept in (encoder, cross, decoder)] == [2, 3, 3]


def test_translators_have_three_parts(tokenizer: Tokenizer) -> None:
    model, source = make_run("translate", tokenizer)
    found = look(model, source, "Ce livre", target="un ennui")
    assert list(found) == ["encoder", "decoder", "cross"]
    S, T = len(found["encoder"].keys), len(found["decoder"].keys)
    assert found["encoder"].weights.shape == (2, 2, S, S)
    assert found["decoder"].weights.shape == (3, 2, T, T)
    assert found["cross"].weights.shape == (3, 2, T, S)
    assert found["cross"].queries == found["decoder"].keys
    assert found["cross"].keys == found["encoder"].keys
    for part in found.values():
        np.testing.assert_allclose(part.weights.sum(-1), 1, atol=1e-6)
    assert (found["decoder"].weights[:, :, np.triu(np.ones((T, T), bool), 1)] == 0).all()


def test_a_translator_without_a_target_looks_at_its_own(tokenizer: Tokenizer) -> None:
    model, source = make_run("translate", tokenizer)
    assert isinstance(model, Translator)
    ids = [tokenizer.bos, *tokenizer.encode(["Ce livre"])[0], tokenizer.eos]
    expected = [tokenizer.bos]
    with torch.inference_mode():
        while len(expected) <= max_target_tokens(len(ids), source.model.max_length):
            logits = model(torch.tensor([ids]), None, torch.tensor([expected]))[0, -1]
            logits[tokenizer.suppressed_ids(len(logits))] = -torch.inf
            if int(logits.argmax()) == tokenizer.eos:
                break
            expected.append(int(logits.argmax()))
    found = look(model, source, "Ce livre")["cross"]
    assert found.queries == tokens_of(tokenizer, expected)


def test_a_translator_may_write_with_a_tokenizer_of_its_own(tokenizer: Tokenizer) -> None:
    other = train_tokenizer(["zum Buch " * 30], vocab_size=280)
    sizes = {"shared": False, "target_vocab_size": other.vocab_size}
    model, source = make_run("translate", tokenizer, **sizes)
    pair = TokenizerPair(tokenizer, other)
    source = replace(source, transformer=(source.model, pair))
    found = look(model, source, "Ce livre", target="zum Buch")["cross"]
    assert found.queries.pieces == ("<s>", *other.pieces(other.encode(["zum Buch"])[0]))
    assert found.by_word().keys.pieces == ("<s>", "Ce", "livre", "</s>")
    assert len(look(model, source, "Ce livre")["decoder"].queries) > 0


def test_two_texts_are_two_segments(tokenizer: Tokenizer) -> None:
    model, source = make_run("masked", tokenizer, segments=2)
    found = look(model, source, "Ce livre", "un ennui")["self"]
    assert found.queries.pieces.count("</s>") == 2
    with torch.no_grad():
        model.backbone.embed_segments.weight[1] += 1.0
    assert not np.allclose(
        look(model, source, "Ce livre", "un ennui")["self"].weights, found.weights
    )


def test_what_cannot_be_looked_at_is_refused(tokenizer: Tokenizer) -> None:
    causal = make_run("causal", tokenizer)
    with pytest.raises(WarmstartError, match=r"--target needs a translator.*runs/toy"):
        look(*causal, "Ce", target="un")
    with pytest.raises(WarmstartError, match="--text2 needs a model with bidirectional"):
        look(*causal, "Ce", "un")
    with pytest.raises(WarmstartError, match="the text '' has no tokens"):
        look(*causal, "")
    with pytest.raises(WarmstartError, match="--text2 is not for a translator"):
        look(*make_run("translate", tokenizer, attention="bidirectional"), "Ce", "un")
    model, source = make_run("classify", tokenizer)
    settings = {**source.settings, "truncate": "no such rule"}
    odd = replace(source, config={**source.config, "settings": settings})
    with pytest.raises(WarmstartError, match="'no such rule' is unknown"):
        look(model, odd, "Ce livre " * 40)


def test_a_long_text_is_cut_and_said(tokenizer: Tokenizer) -> None:
    model, source = make_run("classify", tokenizer)
    said: list[str] = []

    class Listener:
        def say(self, line: str) -> None:
            said.append(line)

        def bar(self, *_: object) -> Any: ...

    with progress.show_on(Listener()):
        found = look(model, source, "Ce livre " * 60)["self"]
    assert len(found.keys) == source.model.max_length
    assert found.keys.pieces[-1] == "</s>"
    assert "38 are read, by the rule 'head'" in said[0]


def test_pieces_join_to_words(tokenizer: Tokenizer) -> None:
    model, source = make_run("causal", tokenizer)
    found = look(model, source, TEXT)["self"]
    joined = found.by_word()
    assert joined.keys.pieces == ("<s>", *TEXT.split())
    assert len(found.keys) > len(joined.keys)
    np.testing.assert_allclose(joined.weights.sum(-1), 1, atol=1e-5)
    assert joined.by_word().weights.tolist() == joined.weights.tolist()


def test_joining_sums_what_is_looked_at_and_averages_what_looks() -> None:
    tokens = Tokens(pieces=("▁a", "b", "▁c"), words=(0, 0, 1))
    rows = [[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.1, 0.3, 0.6]]
    weights = np.array(rows, dtype=np.float32)[None, None]
    joined = AttentionMap(part="self", queries=tokens, keys=tokens, weights=weights).by_word()
    assert joined.keys.pieces == ("ab", "c")
    np.testing.assert_allclose(joined.weights[0, 0], [[0.7, 0.3], [0.4, 0.6]], atol=1e-6)


def test_pieces_of_every_tokenizer_find_their_words(tokenizer: Tokenizer) -> None:
    class Fake:
        kind, bos, eos, pad, mask = "wordpiece", 0, 1, 2, 3

        def pieces(self, ids: list[int]) -> list[str]:
            return ["[CLS]", "mer", "##veille", "!", "[SEP]"]

        labels = pieces

    found = tokens_of(Fake(), [0, 7, 8, 9, 1])  # type: ignore[arg-type]
    assert found.by_word().pieces == ("[CLS]", "merveille", "!", "[SEP]")
    ids = [tokenizer.bos, *tokenizer.encode(["un ennui\nun"])[0], tokenizer.eos]
    assert tokens_of(tokenizer, ids).by_word().pieces[:3] == ("<s>", "un", "ennui")


def _map(weights: Any, part: Any = "self") -> AttentionMap:
    array = np.array(weights, dtype=np.float32)[None, None]
    sides = [Tokens(pieces=tuple("abcdefgh"[:n]), words=tuple(range(n))) for n in array.shape[2:]]
    return AttentionMap(part=part, queries=sides[0], keys=sides[1], weights=array)


def test_figures_of_heads_that_are_known() -> None:
    sharp, flat = _map(np.eye(4)), _map(np.full((4, 4), 0.25))
    assert sharp.entropy() == 0
    assert flat.entropy() == pytest.approx(2)
    assert sharp.distance() == 0
    assert flat.distance() == pytest.approx(1.25)  # mean |i - j| of four places
    assert sharp.share_at("itself") == 1
    previous = _map([[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert previous.share_at("previous") == 1
    assert previous.share_at("first") == pytest.approx(2 / 3)
    assert _map([[0.5, 0.5]], "cross").distance() is None


@pytest.mark.parametrize("part", ["self", "decoder", "cross"])
def test_figures_name_tokens_and_tell_masked_from_zero(part: Any) -> None:
    weights = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    weights[3] = [1, 0, 0, 0]  # zeros that are not masked
    found = replace(_map(weights, part), is_causal=part != "cross")
    drawings = [draw_heads(found), draw_head(found, 0, 0)]
    for drawing in drawings:
        axes = drawing.axes[0]
        assert [label.get_text() for label in axes.get_xticklabels()] == list("abcd")
        assert [label.get_text() for label in axes.get_yticklabels()] == list("abcd")
        shown = axes.images[0].get_array()
        assert (np.ma.getmaskarray(shown) == found.is_masked).all()
        assert "queries" in str(drawing.get_supylabel() or axes.get_ylabel())
        assert found.title in str(drawing.get_suptitle())
    says_next = ["predicts the next token" in draw.get_supylabel() for draw in drawings[:1]]
    assert says_next == [part == "cross"]


def test_many_tokens_have_no_labels() -> None:
    tokens = Tokens(pieces=("a",) * 90, words=tuple(range(90)))
    weights = np.full((2, 12, 90, 90), 1 / 90, np.float32)
    found = AttentionMap(part="self", queries=tokens, keys=tokens, weights=weights)
    assert not draw_heads(found).axes[0].get_xticklabels()


def test_weights_that_do_not_fit_their_tokens_are_a_mistake() -> None:
    tokens = Tokens(pieces=("a",), words=(0,))
    with pytest.raises(ValueError, match="do not fit"):
        AttentionMap(part="self", queries=tokens, keys=tokens, weights=np.ones((1, 1, 2, 2)))


@pytest.mark.parametrize(("kind", "error"), [(np.uint16, 2e-5), (np.uint8, 4e-3)])
def test_rounded_weights_come_back(kind: Any, error: float) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(50), (2, 2, 50)).astype(np.float32)
    roots = np.frombuffer(base64.b64decode(encode_weights(weights, kind)), kind)
    back = np.square(roots.astype(np.float64) / np.iinfo(kind).max).reshape(weights.shape)
    np.testing.assert_allclose(back, weights, atol=error)
    small = (weights > 1e-3) & (weights < 1e-2)
    np.testing.assert_allclose(back[small], weights[small], rtol=0.13)


def test_a_text_cannot_break_out_of_the_page() -> None:
    tokens = Tokens(pieces=("</script><b>{{ data }}",), words=(0,))
    found = AttentionMap(
        part="self", queries=tokens, keys=tokens, weights=np.ones((1, 1, 1, 1), np.float32)
    )
    page = attention_html("<i>&{{ data }}", ["</ul>"], [found])
    assert page.count("</script>") == 2
    assert "<i>" not in page
    assert "<title>&lt;i&gt;&amp;{{ data }}</title>" in page
    assert page.count("http://") == 1  # the name of SVG, fetched by nobody
    assert "https://" not in page


def test_a_notebook_shows_a_page_in_a_frame_and_a_figure_as_an_image(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<p class="x">"quoted" & bold</p>')
    frame = AttentionResult(tmp_path / "page.html", {})._repr_html_()
    assert "&lt;p class=&#34;x&#34;&gt;" in frame
    assert "<p class" not in frame
    (tmp_path / "a.svg").write_text("<svg/>")
    assert "data:image/svg" in AttentionResult(tmp_path / "a.svg", {})._repr_html_()
