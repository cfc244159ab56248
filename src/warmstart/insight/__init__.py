"""See inside a model: masks, positions, growth with length."""
