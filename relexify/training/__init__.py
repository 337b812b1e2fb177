"""The training engine. It knows no particular system: models describe themselves through `protocol.py`.

options.py    `Training` and `Stage`: the options
plan.py       the stages of a training: relexify's own plan, and the plans of the papers
rates.py      what options leave open, such as learning rates, derived from model and text
precision.py  the number format that parameters are trained in
run.py        `train`: stage after stage in a work folder, resumable, then the result
job.py        what is trained: model, data, and how to load and save them
distributed.py  the processes that were started together
protocol.py   what a model or an output head may tell the engine: its loss, its heads, its lexical parameters
engine/       one stage with the Hugging Face Trainer
data/         tokenised text, packed once, and batches of it
loss/         the language-modelling loss without full logits
results/      the result, the held-out scores along the way, and both in words and tables
cost/         what a training costs, estimated from the shape of the model or measured in a few steps
checks.py, trainable.py  validation before any work: without the model, and with its config
dry_run.py    what a training would do
recipe.py     the tables `[training]` and `[fresh]`
"""
