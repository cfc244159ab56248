"""The built-in world of the demo: book reviews in English and French."""
