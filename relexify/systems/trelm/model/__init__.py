"""The model with the TRILayer.

config.py     its config
backbone.py   the supported encoders, and the names of their parts
xlm.py        convert XLM to a BERT, so that it is supported too
encoder.py    the encoder with the TRILayer between its two halves
heads.py      heads for masked tokens and translations, and for next sentences
task_heads.py heads for tasks: text and token classification, multiple choice, and question answering
building.py   build it from a masked language model, or for a single language
folder.py     its tokenizers on disk
"""
