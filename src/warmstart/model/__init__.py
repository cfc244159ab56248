"""The Transformer as the papers write it: one backbone, heads that swap.

Start with attention.py, then backbone.py.
"""
