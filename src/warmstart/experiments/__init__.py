"""The comparison: arms × label subsets × seeds as a plan, its cells, the verdict.

Start with plan.py; grid.py trains its cells, verdicts.py summarises and judges the cells.
"""
