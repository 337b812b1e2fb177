"""Fine-tune a model on a task and score it.

run.py       fine-tune once for each seed, and score
problem.py   what a task predicts: its model, labels, inputs and predictions, in one table
labels.py    the labels of data, and its validation
inputs.py    examples as model inputs, and tags of words from predictions
windows.py   the same for texts with questions, and answers from predictions
encoder.py   load the model, with a new layer for the task
"""
