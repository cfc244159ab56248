"""Metrics and intervals: plain values in, numbers out.

Start with metrics.py.
"""
