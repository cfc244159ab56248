"""Text files in, tokens and fingerprints out."""
