"""Tokenizers: train, load, encode, decode. Start with tokenizer.py, then load_tokenizer.py."""
