"""Typed results, and the figures and pages drawn from them, without torch."""
