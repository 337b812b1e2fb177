"""File formats of word vectors: fastText, word2vec, text and safetensors.

loading.py    recognise the format of a file by its content
fasttext.py   fastText's `.bin`, memory-mapped
word2vec.py   word2vec's text and binary formats, also used by GloVe and fastText's `.vec`
"""
