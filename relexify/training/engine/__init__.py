"""Train one stage with the Hugging Face Trainer.

stage.py        freeze, set up the Trainer, resume from the last checkpoint, collect the scores
trainer.py      what relexify overrides in the Trainer, and why
sealed.py       a Trainer with sealed checkpoints, also for fine-tuning (`evaluation/training.py`)
monitor.py      when to score and save, progress, speed, and the time that is left
arguments.py    TrainingArguments, schedule, optimiser, the steps to score and save at
freezing.py     which parameters a stage trains, and which rows of tokens stay as they are
adapters.py     low-rank adapters instead of whole matrices (LoRA)
groups.py       which of them are trained by Muon, and which by AdamW at what rate
muon.py         Muon and AdamW as one optimiser
low_memory.py   AdamW with moments in 8 bits, or paged to the host (bitsandbytes)
lookahead.py    Lookahead around Adam
average.py      a moving average of the weights
cuda_graph.py   forward and backward pass of a step as one CUDA graph
randomness.py   leave the caller's random state as it was
"""
