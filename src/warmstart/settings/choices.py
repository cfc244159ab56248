"""Choices that several settings, or the code below them, share."""

from typing import Literal

Optimizer = Literal["adamw", "muon"]
Pooling = Literal["cls", "last", "mean"]  # which positions make the vector of a text
TokenizerKind = Literal["bpe", "unigram"]
Truncate = Literal["head", "tail", "middle"]  # the part of an overlong text that is used
