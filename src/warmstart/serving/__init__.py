"""Runs behind HTTP: routes, batching, limits, and a page to try them.

Start with app.py, what can be asked; worker.py computes the answers.
"""
