"""Whole jobs, from files to results."""
