"""Train, load and use tokenizers.

Start with tokenizer.py.
"""
