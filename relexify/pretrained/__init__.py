"""Everything that depends on Hugging Face.

architecture.py   what a model predicts, what it can read, where its parts are
text_start.py     the special tokens that windows of text begin with, for a decoder
lexical.py        which parameters belong to the vocabulary
same_encoder.py   whether two models share all but the vocabulary
names.py          what a name means: folder, Hub, package
loading.py        models and tokenizers by name
files/            their files: weights, tokenizers, and models that come in a Python package
kinds.py          kinds of models that relexify adds; systems register theirs
languages.py      one language of a model of several
tokenizers.py     train a tokenizer like that of a model, save it, and read its chat template
runnable.py       run a model without dropout, if it has no NaN and fits into memory
fresh.py, heads.py            untrained models, and new heads
precision.py, quiet.py        number formats, and transformers without its progress bars
cuda.py                       whether there is a GPU
license.py                    the license of a model, if it is known on this machine
"""
