"""Tokenizers: train, load, encode, decode. Start with tokenizer.py, then loading.py."""
