"""Trained models in use: text in, labels, vectors or text out.

Start with text_model.py, what every model can do.
"""
