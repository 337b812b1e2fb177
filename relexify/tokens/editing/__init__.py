"""Change the vocabulary of a tokenizer.

extension.py    add tokens of a second language
merges.py       learn the merges of added tokens
pruning.py      remove tokens that a text never uses
rebuilding.py   write and read the vocabulary; used by extension and pruning
"""
