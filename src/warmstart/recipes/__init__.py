"""The verbs of the core, in the order things happen.

Start with pretrain.py; use.py has what is done with a finished run.
"""
