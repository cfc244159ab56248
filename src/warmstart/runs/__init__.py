"""Run folders: layout, lifecycle, checkpoints, lineage, weight transfer.

Start with folder.py, the layout; saved.py reads a run back.
"""
