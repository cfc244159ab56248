from random_runs import tokenizer

__all__ = ["tokenizer"]
