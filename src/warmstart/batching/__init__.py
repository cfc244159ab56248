"""Batches: packing, padding, masking, next-sentence pairs, seeded streams.

Start with batch.py, the batches; loader.py streams them by step.
"""
