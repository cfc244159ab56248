"""Batches: packing, padding, masking, next-sentence pairs, seeded streams.

Start with batch.py for the batches, packing.py and padding.py for the streams.
"""
