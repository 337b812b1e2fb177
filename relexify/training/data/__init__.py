"""Tokenised text, packed once, and batches of it.

packing.py   text as one stream of tokens, in the cache
batches.py   rows of it in a fixed order, masked for an encoder
"""
