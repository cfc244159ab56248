"""What is tuned for one kind of machine; each equals a plain path.

Start with layers.py.
"""
