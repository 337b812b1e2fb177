"""The result of a training.

result.py    the result, and how to load it from the folder of the trained model
curve.py     held-out scores during training
summary.py   the result in words and tables, with a verdict
notes.py     the entries that a training writes into `relexify.json`
"""
