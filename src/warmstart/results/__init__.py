"""Typed results that recipes return and reports draw; no torch.

Start with comparison.py.
"""
