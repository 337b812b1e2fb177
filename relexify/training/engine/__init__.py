"""Train one stage with the Hugging Face Trainer.

stage.py        freeze, set up the Trainer, resume from the last checkpoint, collect the scores
trainer.py      what relexify overrides in the Trainer, and why
sealed.py       a Trainer with sealed checkpoints, also for fine-tuning (`evaluation/training.py`)
monitor.py      when to score and save, progress, speed, and the time that is left
arguments.py    TrainingArguments, schedule, optimiser, the steps to score and save at
freezing.py     which parameters a stage trains, and which rows of tokens stay as they are
dropout.py      train without the model's dropout
adapters.py     low-rank adapters instead of whole matrices (LoRA)
optimisers/     Muon, Lookahead, optimisers that take less memory, and averages of the weights
distribution.py what FSDP requires, which distributes a model over devices
cuda_graph.py   forward and backward pass of a step as one CUDA graph
randomness.py   leave the caller's random state as it was
"""
