"""Every setting a command takes, its help text and limits; presets.

Start with base.py, how a setting is declared.
"""
