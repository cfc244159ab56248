"""The training loop, optimizers, schedules, weight averaging.

Start with trainer.py.
"""
