"""What a model is trained for: sums to minimise, and the counts that divide them."""
