"""Train one stage with the Hugging Face Trainer.

stage.py        freeze, set up the Trainer, resume from the last checkpoint, collect the scores
trainer.py      what relexify overrides in the Trainer, and why
arguments.py    TrainingArguments, schedule, optimizer, when to score and save
freezing.py     which parameters a stage trains
lookahead.py    Lookahead around Adam
cuda_graph.py   forward and backward pass of a step as one CUDA graph
randomness.py   leave the caller's random state as it was
"""
