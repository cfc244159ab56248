"""Other people's formats: Hugging Face folders, in and out.

Start with hf_reader.py.
"""
