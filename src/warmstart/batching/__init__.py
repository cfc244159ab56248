"""Batches: packing, padding, masking, next-sentence pairs, seeded streams.

Start with batches.py, what a batch is; packing.py and masking.py make those of pretraining.
"""
