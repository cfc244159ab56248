"""Kill, resume, compare: proof that a run survives.

Start with resume.py; sessions.py starts the processes that are killed.
"""
