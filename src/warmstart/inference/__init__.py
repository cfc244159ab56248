"""Trained models in use: text in, labels, vectors or text out.

Start with text_model.py, the verbs, and transformer_model.py, what every Transformer can do.
"""
