"""The loop that trains anything: optimizer, schedule, evaluation, checkpoints."""
