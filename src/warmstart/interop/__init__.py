"""Other people's formats: Hugging Face folders in and out, ONNX and CTranslate2 out.

Start with hf_reader.py to see a model come in, with export_format.py to see what a format is.
"""
