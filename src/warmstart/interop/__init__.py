"""Other people's formats: Hugging Face folders in and out, ONNX and CTranslate2 out.

Start with exchange.py, the two verbs; family.py says what a family of models is.
"""
