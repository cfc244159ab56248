from random_runs import tokenizer

from saving import saved

__all__ = ["saved", "tokenizer"]
