"""Labelling: which texts to label next, and which labels look wrong.

Begin with suggest.py.
"""
