"""Everything that depends on Hugging Face.

architecture.py   architectures: predictions, maximum length, names of parts
text_start.py     the special tokens at the beginning of a decoder's windows
lexical.py        the parameters that belong to the vocabulary
same_encoder.py   check that two models differ only in the vocabulary
names.py          resolve names: folders, Hub names, packaged models
loading.py        load models and tokenizers by name
files/            their files: weights, tokenizers, and models in Python packages
kinds.py          kinds of models that relexify adds; systems register theirs
languages.py      load or export one language of a multilingual folder
tokenizers.py     train a tokenizer of the same type as a model's, save it, and read its chat template
runnable.py       run a model without dropout; check for NaN and for enough memory
fresh.py, heads.py            untrained models, and new heads
precision.py, quiet.py        number formats, and transformers without its progress bars
cuda.py                       check whether there is a GPU
license.py                    the license of a model, if it is available on this machine
"""
