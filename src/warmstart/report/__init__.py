"""Figures and pages that several commands share; never imports torch.

Start with html.py for pages, style.py for figures.
"""
