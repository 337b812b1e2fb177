"""Tokenised text, packed once, and batches of it.

texts.py     text to train on and text to score on, opened and packed
packing.py   text as one stream of tokens, in the cache
batches.py   rows of it in a fixed order, masked for an encoder
"""
