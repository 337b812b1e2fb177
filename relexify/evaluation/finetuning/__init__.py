"""Fine-tune a model on a task and score it.

run.py       fine-tune once for each seed, and score
problem.py   a table of what tasks predict: model, labels, inputs and predictions
labels.py    collect the labels of data, and validate the data
inputs.py    encode examples as model inputs; decode tags of words
windows.py   encode texts with questions as model inputs; decode answers
encoder.py   load the model, with a new layer for the task
"""
