"""Tokenizers: train, load, encode, decode.

Start with tokenizer.py, then backends.py.
"""
