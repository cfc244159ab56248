"""Files, tables, corpora, labelled texts, pairs, overlap; text to token files.

Start with corpus.py.
"""
