"""The result of a training.

result.py    the result, and how it is found again in the folder of the trained model
curve.py     held-out scores along the way
summary.py   the result in words and tables, with a verdict
notes.py     what a training writes into `relexify.json`
"""
