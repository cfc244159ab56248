"""From a model's probabilities to text, one token at a time."""
