"""The model with the TRILayer.

config.py     its config
backbone.py   the encoders that it can be built on, and where each keeps its parts
xlm.py        XLM as a BERT, which it is built on then
encoder.py    the encoder with the TRILayer between its two halves
heads.py      masked tokens and translations, and next sentences
task_heads.py answers to tasks: of texts, of tokens, choices, and answers in a text
building.py   build it from a masked language model, or for one language alone
folder.py     its tokenizers on disk
"""
