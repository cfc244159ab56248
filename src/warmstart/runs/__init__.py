"""Run folders, checkpoints, and weights that move from one model to the next."""
