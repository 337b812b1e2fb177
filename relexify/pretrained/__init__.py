"""Everything that depends on Hugging Face.

architecture.py   what a model predicts, what it can read, where its parts are
lexical.py        which parameters belong to the vocabulary
loading.py        models and tokenizers by name: folder, Hub, package
weight_files.py   save a model with links to the files that it shares with another
memory.py         whether a model fits into memory
packaged.py       weights that come in a Python package
kinds.py          kinds of models that relexify adds; systems register theirs
languages.py      one language of a model of several
fresh.py, heads.py, precision.py, tokenizers.py   untrained models, new heads, number formats, tokenizers
"""
