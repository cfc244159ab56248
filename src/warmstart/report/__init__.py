"""Figures and pages; never imports torch.

Start with comparison_page.py.
"""
