"""From probabilities to text: sampling, beam search, and engines that take its steps.

Start with beam.py; engines.py makes step functions from a translator.
"""
