"""Count and predict: parameters, FLOPs, memory and time of a training.

Start with params.py for counts, plan.py for the cost of a job.
"""
