from random_runs import tokenizer

from saving import saved
from toy_pairs import toy, translator

__all__ = ["saved", "tokenizer", "toy", "translator"]
