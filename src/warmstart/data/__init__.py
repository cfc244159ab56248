"""Files, tables, corpora, labelled texts, pairs, copies; text to token files.

Start with corpus.py for text, tables.py for tables.
"""
