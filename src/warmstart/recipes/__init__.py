"""The verbs, one file each, in the order things happen.

Start with pretrain.py.
"""
