"""The Transformer: one base, heads that swap."""
