"""From token ids to tensors a model can read."""
