"""Everything that depends on Hugging Face.

architecture.py   what a model predicts, what it can read, where its parts are
lexical.py        which parameters belong to the vocabulary
loading.py        models and tokenizers by name: folder, Hub, package
packaged.py       weights that come in a Python package
weight_files.py   save a model with links to the files that it shares with another
kinds.py          kinds of models that relexify adds; systems register theirs
languages.py      one language of a model of several
tokenizers.py     train a tokenizer like that of a model, and save it
fresh.py, heads.py            untrained models, and new heads
finite.py, memory.py          whether a model can be run: no NaN, and enough memory
precision.py, quiet.py        number formats, and transformers without its progress bars
chat.py, license.py           the system prompt of a chat template, and the license of a model
"""
