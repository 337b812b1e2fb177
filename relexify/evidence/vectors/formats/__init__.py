"""File formats of word vectors: fastText, word2vec, text and safetensors.

loading.py    recognise the format of a file by its content
fasttext.py   fastText's `.bin`, by memory map
word2vec.py   word2vec's text and binary formats, which GloVe and fastText's `.vec` share
"""
