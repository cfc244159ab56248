"""The comparison: arms × label subsets × seeds as a plan, its cells, the verdict.

Start with experiment_plan.py; grid.py trains the cells, verdicts.py judges them.
"""
