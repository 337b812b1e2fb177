"""The files of a model.

shards.py      the files that hold the weights
embedding.py   read the input embedding alone
weights.py     save a model with links to the files that it shares with another, and identify its weights
tokenizer.py   whether a tokenizer.json is intact, and what it holds
packaged.py    models that come in a Python package, unpacked
gguf.py        read GGUF, the format of one of them
"""
