"""What is tuned for one kind of machine; each equals a plain path.

Start with fast_attention.py.
"""
