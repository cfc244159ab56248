"""The comparison: arms x label subsets x seeds, the verdict and the report.

Start with compare.py, which runs it; arms.py says what is compared, verdict.py what is concluded.
"""
