"""The command line: parse, make one call, print.

Start with main.py.
"""
