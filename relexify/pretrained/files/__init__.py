"""The files of a model.

shards.py      the files with the weights
embedding.py   read only the input embedding
weights.py     save a model with links to unchanged files of another model, and identify weights
tokenizer.py   validate and read a tokenizer.json
packaged.py    unpack models that are distributed in a Python package
gguf.py        read GGUF, the format of one packaged model
"""
