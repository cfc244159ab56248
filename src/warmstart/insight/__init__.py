"""What `plan` and `look` compute: cost, memory, masks, positions, growth with length.

Start with job_plan.py for `plan`.
"""
