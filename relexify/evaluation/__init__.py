"""Evaluate a model: on text, or on tasks by fine-tuning, parsing and probing.

text.py       score held-out text
evaluate.py   evaluate a model on a task
registry.py   the definition of a task; files in tasks/ register tasks
options.py, results.py   the options of an evaluation, and the scores of each seed
training.py   the Trainer that fine-tuning and parsing share
metrics.py    accuracy, F1, correlations
data/         readers of task data
finetuning/, parsing/, probing/   the three ways to evaluate
"""
