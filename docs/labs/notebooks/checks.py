"""Checks of the functions that students write: each names the mistake, not only that there is one.

`check(attention)` calls a student's function with numbers that depend on the student's own number
(STUDENT), compares the result with the right one and with those of the usual mistakes, and prints
an answer that depends on it. website/notebooks.py puts this file into a cell of the notebook.
Sizes: B rows, T positions, D width, H heads, K = D / H, V tokens.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STUDENT = 0  # set it to your own number


class NotYet(Exception):  # noqa: N818
    """What is still wrong, and what to look at."""

    def _render_traceback_(self) -> list[str]:  # Jupyter shows the sentence alone
        return [f"Not yet. {self}"]


def check(function: Callable[..., Any]) -> None:
    """Raise NotYet with the mistake, or print the student's own answer."""
    name = function.__name__
    if name not in CHECKS:
        raise NotYet(f"There is no check of {name}; there are checks of {', '.join(CHECKS)}.")
    try:
        answer = CHECKS[name](function)
    except NotImplementedError:
        raise NotYet(f"{name} is still blank. {HINTS[name]}") from None
    except NotYet:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise NotYet(f"{name} stopped with {told}. {HINTS[name]}") from error
    print(f"{name}: right. Answer of student {STUDENT}: {answer:.4f}")


HINTS = {
    "attention": "Scores compare each query with each key: q (…, T, K) times k transposed (…, K, S)"
    " is (…, T, S). Then scale, mask, softmax over the keys, times v.",
    "causal_mask": "Return a boolean tensor (T, T): row t is True in columns 0 to t.",
    "sinusoids": "Angles (T, D / 2) are positions (T, 1) times frequencies (D / 2); their sines and"
    " cosines take turns in the D columns.",
    "swap_head": "Return Model(…) with the backbone of the model you are given and num_labels"
    " outputs.",
    "next_token_loss": "Drop the last position of the logits and the first token of ids, flatten"
    " both, and call cross_entropy with ignore_index=pad. It wants (N, V) and (N).",
    "greedy": "predict(ids) is (1, T, V). Take the last position, its argmax, append it to ids, and"
    " repeat until it is `end`.",
}


def check_attention(attention: Callable[..., Any]) -> float:
    q, k, v = _draw(3, 2, 3, 5, 4)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    scores = q @ k.transpose(-2, -1)  # (B, H, T, T)
    scaled = scores / math.sqrt(4)
    masked = scaled.masked_fill(~mask, -torch.inf)
    right = masked.softmax(-1) @ v
    unscaled = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    usual = {
        "The scores are not divided by √K: see question 2 of lab 2.": unscaled @ v,
        "The scores are divided by K, not by its root.": (
            (scores / 4).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        ),
        "The divisor is the root of the number of positions. It must be the root of the last axis"
        " of q, the width of a head.": (
            (scores / math.sqrt(5)).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        ),
        "Softmax runs over the queries (axis -2). Each query's weights must sum to one, so it runs"
        " over the keys: axis -1.": masked.softmax(-2) @ v,
        "The mask is upside down: it is True where a key MAY be read, and you mask those."
        " A query that may read nothing gets NaN. Use ~mask in masked_fill.": scaled.masked_fill(
            mask, -torch.inf
        ).softmax(-1)
        @ v,
        "Masked scores are set to 0. e⁰ = 1 is still a weight: set them to -inf, before"
        " softmax.": scaled.masked_fill(~mask, 0.0).softmax(-1) @ v,
        "The mask comes after softmax, so the weights of a query no longer sum to one: mask the"
        " scores before softmax.": scaled.softmax(-1).masked_fill(~mask, 0.0) @ v,
        "The mask is not used: a query reads keys that come after it.": scaled.softmax(-1) @ v,
        "These are the weights. The answer is their mean of the values: weights @ v.": (
            masked.softmax(-1)
        ),
        "Softmax is missing: raw scores are no weights.": scaled.masked_fill(~mask, 0.0) @ v,
    }
    return _compare(attention(q, k, v, mask), right, usual, "(B, H, T, K)")


def check_causal_mask(causal_mask: Callable[..., Any]) -> float:
    length = 4 + STUDENT % 97
    ones = torch.ones(length, length, dtype=torch.bool)
    right = ones.tril()
    found = causal_mask(length)
    if _is_tensor(found) and found.dtype != torch.bool and found.shape == right.shape:
        if found.isinf().any():
            raise NotYet(
                "This is the mask as numbers to add, log M. Here a mask is boolean, True where a"
                " key may be read; attention() turns it into -inf."
            )
        raise NotYet(f"The mask must be boolean (dtype=torch.bool), and is {found.dtype}.")
    usual = {
        "This is the upper triangle: every position would read what follows it, the answer"
        " included. Use tril.": ones.triu(),
        "This masks the position itself too. The diagonal must be True: position t reads token t"
        " and predicts token t + 1. (The first row would have no key at all: NaN.)": ones.tril(-1),
        "The mask is inverted: True must mean that a key MAY be read.": ~right,
        "Nothing is masked: the model would read its answers. Keep the lower triangle.": ones,
        "One diagonal too many: position t would read token t + 1, its answer.": ones.tril(1),
        "Only the diagonal is True: no position reads an earlier one.": ones & ones.tril().triu(),
    }
    _compare(found, right, usual, "(T, T)")
    return float(right.sum())


def check_sinusoids(sinusoids: Callable[..., Any]) -> float:
    length, width = 6 + STUDENT % 97, 8
    position = torch.arange(length, dtype=torch.float64)[:, None]
    index = torch.arange(width // 2, dtype=torch.float64)
    angles = position * 10_000 ** (-2 * index / width)

    def take_turns(angles: Tensor) -> Tensor:
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)  # (T, D)

    right = take_turns(angles)
    usual = {
        "Sines and cosines are side by side as two halves. In the paper they take turns: column 0"
        " is a sine, column 1 the cosine of the same angle. Stack them on a new last axis, then"
        " flatten.": torch.cat([angles.sin(), angles.cos()], -1),
        "Sine and cosine are exchanged: even columns are sines. At position 0 column 0 is 0.": (
            torch.stack([angles.cos(), angles.sin()], -1).flatten(1)
        ),
        "The exponent lacks its 2: frequency i is 10,000^(-2i/D), so that they fall towards"
        " 1/10,000, not 1/100.": take_turns(position * 10_000 ** (-index / width)),
        "The exponent is positive: angles grow with the column. It must be 10,000^(-2i/D).": (
            take_turns(position * 10_000 ** (2 * index / width))
        ),
        "Positions begin with 1. The first position is 0: sines 0, cosines 1.": take_turns(
            (position + 1) * 10_000 ** (-2 * index / width)
        ),
        "All columns have the same frequency. Each pair of columns has its own.": take_turns(
            position.expand_as(angles)
        ),
        "Rows and columns are exchanged: a row is a position, a column a wave.": right.T,
        "Only sines are used. With their cosines, a shift is a rotation: a head can look three"
        " tokens back.": angles.sin().repeat_interleave(2, -1),
    }
    return _compare(sinusoids(length, width), right, usual, "(T, D)")


def check_swap_head(swap_head: Callable[..., Any]) -> float:
    torch.manual_seed(STUDENT)
    num_labels = 3 + STUDENT % 97
    backbone = _Backbone(120, 8)
    model = _Model(backbone, 120)
    before = [parameter.clone() for parameter in backbone.parameters()]
    old = model.head.weight.detach().clone()
    found = swap_head(model, num_labels)
    if not isinstance(found, nn.Module):
        raise NotYet(f"Return the new model; this returned {type(found).__name__}.")
    if not hasattr(found, "backbone") or not hasattr(found, "head"):
        raise NotYet("The new model needs a backbone and a head: return Model(…).")
    _check_head(found.head, old, num_labels)
    after = list(found.backbone.parameters())
    if len(after) != len(before) or not all(map(torch.equal, before, after)):
        raise NotYet(
            "The backbone has other weights than the one you were given: that is a cold start."
            " Pass model.backbone on, as it is."
        )
    if not all(parameter.requires_grad for parameter in found.parameters()):
        raise NotYet(
            "Some weights are frozen (requires_grad=False). Pretrained is not frozen: a warm start"
            " trains all weights, from where pretraining left them."
        )
    return float(sum(parameter.numel() for parameter in found.parameters()))


def _check_head(head: Any, old: Tensor, num_labels: int) -> None:
    if isinstance(head, nn.Sequential):
        raise NotYet(
            "The new head is put on top of the old one, so it reads V logits of tokens. Throw the"
            " old head away: the new one reads the backbone's D numbers."
        )
    num_outputs, width = head.weight.shape
    num_tokens, backbone_width = old.shape
    if width == num_tokens:
        raise NotYet(
            "The new head reads V numbers, the old head's logits. It must read the backbone's D."
        )
    if width != backbone_width:
        raise NotYet(f"The new head must read D = {backbone_width} numbers, and reads {width}.")
    if num_outputs == num_tokens:
        raise NotYet(
            "The head still has one output for each token of the vocabulary: V, not num_labels."
        )
    if num_outputs != num_labels:
        raise NotYet(
            f"The head has {num_outputs} outputs for {num_labels} labels: use num_labels, not a"
            " number."
        )
    if torch.equal(head.weight, old[:num_labels]):
        raise NotYet(
            "The new head has rows of the old one. Those score tokens, not labels: begin with"
            " random weights."
        )


def check_next_token_loss(next_token_loss: Callable[..., Any]) -> float:
    pad = 0
    logits = _draw(2, 6, 9)
    ids = torch.tensor([[1, 5, 6, 7, 8, 2], [1, 4, 3, 2, pad, pad]])

    def loss(predictions: Tensor, targets: Tensor, **options: Any) -> Tensor:
        return F.cross_entropy(predictions.flatten(0, 1), targets.flatten(), **options)

    right = loss(logits[:, :-1], ids[:, 1:], ignore_index=pad)
    usual = {
        "There is no shift: position t is asked for token t, which it has just read. It predicts"
        " token t + 1.": loss(logits, ids, ignore_index=pad),
        "The shift goes the wrong way: position t is asked for token t - 1. Drop the LAST position"
        " of the logits and the FIRST token of ids.": (
            loss(logits[:, 1:], ids[:, :-1], ignore_index=pad)
        ),
        "Padding counts as a target: the model would learn to predict <pad>. Give cross_entropy"
        " ignore_index=pad.": loss(logits[:, :-1], ids[:, 1:]),
        "This is the sum over the tokens. Take the mean, so that long batches do not weigh more.": (
            loss(logits[:, :-1], ids[:, 1:], ignore_index=pad, reduction="sum")
        ),
        "The sum is divided by all positions, padding too. Divide by the targets that count.": (
            loss(logits[:, :-1], ids[:, 1:], ignore_index=pad, reduction="sum") / 10
        ),
        "The sign is wrong: the loss is −ln p, a positive number.": -right,
        "The logits went through softmax already. cross_entropy does that itself: give it"
        " logits.": loss(logits[:, :-1].softmax(-1), ids[:, 1:], ignore_index=pad),
    }
    found = next_token_loss(logits, ids, pad)
    if _is_tensor(found) and found.ndim > 0 and found.numel() > 1:
        raise NotYet(
            f"The loss must be one number, and has shape {tuple(found.shape)}: take the mean over"
            " the targets that are not padding."
        )
    return _compare(torch.as_tensor(found), right, usual, "()")


def check_greedy(greedy: Callable[..., Any]) -> float:
    end = 2
    orders = list(itertools.permutations(range(3, 9), 4))
    a, b, c, d = orders[STUDENT % len(orders)]
    noise, other = {*range(3, 9)} - {a, b, c, d}
    following = {a: b, b: c, c: d, d: end, end: noise, noise: noise}  # most probable after each

    def predict(ids: Tensor) -> Tensor:
        tokens = [following.get(token, other) for token in ids[0].tolist()]
        return F.one_hot(torch.tensor([tokens]), 9).float()  # (1, T, V)

    def row(*tokens: int) -> Tensor:
        return torch.tensor([tokens])

    start, right = row(1, a), row(1, a, b, c, d, end)
    usual = {
        "Writing does not stop at `end`: 2 is </s>, and what follows it is noise. Leave the loop"
        " when the last token is `end`.": row(1, a, b, c, d, end, *[noise] * 4),
        "`end` is not appended. The text ends with it, as in training.": row(1, a, b, c, d),
        "Only the new tokens are returned. Return the prompt with them: (1, T + new).": (
            row(b, c, d, end)
        ),
        "The next token is read at the first position. The LAST position has read the whole text:"
        " predict(ids)[:, -1].": row(1, a, *[other] * 8),
        "Every token is predicted from the prompt alone. Append the token to ids, and predict from"
        " the longer text.": row(1, a, *[b] * 8),
        "Only one token is appended. Repeat, until `end` or `limit`.": row(1, a, b),
        "New tokens are put before the prompt. They follow it: torch.cat([ids, new], 1).": (
            row(*[b] * 8, 1, a)
        ),
    }
    found = greedy(predict, start, end, 10)
    if _is_tensor(found) and found.ndim == 2 and found.shape[1] > 10:
        raise NotYet("The text is longer than `limit`: the loop must stop there, too.")
    _compare(found, right, usual, "(1, T)")
    short = greedy(predict, start, end, 4)
    if short.shape[1] > 4:
        raise NotYet("With limit=4 the text has more than 4 tokens: stop there, too.")
    return float("".join(map(str, right[0].tolist())))


class _Backbone(nn.Module):
    """As much of a backbone as a head needs."""

    def __init__(self, num_tokens: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(num_tokens, width)
        self.output = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.output(self.embed(ids))


class _Model(nn.Module):
    def __init__(self, backbone: nn.Module, num_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(8, num_outputs)


def _draw(*shape: int) -> Tensor:
    """Return random numbers that depend on the student."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(STUDENT))


def _is_tensor(found: Any) -> bool:
    return isinstance(found, Tensor)


def _compare(found: Any, right: Tensor, usual: dict[str, Tensor], sizes: str) -> float:
    """Raise NotYet unless the result is right; return a number that stands for it."""
    if not _is_tensor(found):
        kind = "nothing: is there a `return`?" if found is None else type(found).__name__
        raise NotYet(f"The result must be a tensor {sizes}, and is {kind}.")
    if _are_close(found, right):
        return float(right.double().sum())
    for message, wrong in usual.items():
        if _are_close(found, wrong):
            raise NotYet(message)
    if found.shape != right.shape:
        shapes = f"{tuple(found.shape)}, and should have {tuple(right.shape)}"
        raise NotYet(f"The result has the shape {shapes}: {sizes}. Which axis is which?")
    if found.is_floating_point() and found.isnan().any():
        raise NotYet("There is NaN in the result: has a row of scores only -inf?")
    where = (found.double() - right.double()).abs().flatten().argmax()
    told, wanted = found.flatten()[where].item(), right.flatten()[where].item()
    raise NotYet(f"The shape is right, the numbers are not: {told:.4g} instead of {wanted:.4g}.")


def _are_close(found: Tensor, right: Tensor) -> bool:
    if found.shape != right.shape:
        return False
    return torch.allclose(found.double(), right.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


CHECKS: dict[str, Callable[[Callable[..., Any]], float]] = {
    "attention": check_attention,
    "causal_mask": check_causal_mask,
    "sinusoids": check_sinusoids,
    "swap_head": check_swap_head,
    "next_token_loss": check_next_token_loss,
    "greedy": check_greedy,
}
