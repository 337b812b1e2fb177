"""Tokenised text, packed once, and batches of it.

texts.py     open and pack text to train on and text to score on
packing.py   tokenize text into one stream of tokens, in the cache
batches.py   sequences of this stream in a fixed order, masked for an encoder
"""
