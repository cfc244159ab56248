"""See inside a model: attention, masks, positions, beams, trainings, ablations, growth.

One file for each `look` command, with what it computes and draws; start with attention.py.
"""
