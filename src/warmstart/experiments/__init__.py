"""The comparison: arms × label subsets × seeds as a plan, its cells, the verdict.

Start with plan.py; cells.py trains the plan, verdicts.py summarises and judges the cells.
"""
