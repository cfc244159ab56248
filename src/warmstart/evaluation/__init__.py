"""What a model or a comparison is worth, in numbers and words."""
