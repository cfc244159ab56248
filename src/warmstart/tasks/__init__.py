"""One file per kind of training: what differs between them, and nothing else.

Start with task.py, the interface; registry.py lists the tasks.
"""
