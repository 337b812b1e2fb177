"""The model with the TRILayer.

config.py     the config of the model
backbone.py   the supported encoders, and the names of their parts
xlm.py        convert XLM to a supported BERT
encoder.py    the encoder with the TRILayer between its two halves
heads.py      heads for masked tokens and translations, and for next sentences
task_heads.py heads for tasks: text and token classification, multiple choice, and question answering
building.py   build the model from a masked language model; extract a single language
folder.py     save and load the model's tokenizers
"""
