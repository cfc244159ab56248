"""The built-in world of book reviews, and the demo.

Start with samples.py; demo.py tells the whole story in one report.
"""
