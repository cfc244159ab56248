"""The built-in world of book reviews.

Start with sample_files.py.
"""
