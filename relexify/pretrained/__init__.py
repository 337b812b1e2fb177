"""Everything that depends on Hugging Face.

names.py          resolve names: folders, Hub names, packaged models
loading.py        load models and tokenizers by name
kinds.py          kinds of models that relexify adds; systems register theirs
languages.py      load or export one language of a multilingual folder
architecture.py   architectures: predictions, maximum length, names of parts
text_start.py     the special tokens at the beginning of a decoder's windows
tokenizers.py     train a tokenizer of the same type as another, save it, and read its chat template
license.py        the license of a model, if it is available on this machine
parameters/       parameters of a model: those of the vocabulary, new heads, untrained models
runtime/          compute with a model: GPU, number formats, memory; hide messages of transformers
files/            files of a model: weights, tokenizers, and models in Python packages
"""
