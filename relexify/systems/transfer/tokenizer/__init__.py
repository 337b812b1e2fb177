"""The target tokenizer of a transfer.

choice.py            which tokenizer a transfer uses, by its options
target.py            load, train or extend it
extension.py         add tokens to the model's vocabulary instead of replacing it
vocabulary_size.py   how large a vocabulary a text is enough for
"""
