"""Dependency parsing, and semantic roles, with a biaffine parser.

training.py     train and test a parser, once for each seed
biaffine.py     the parser: a layer on any model of transformers
inputs.py       sentences as its inputs, and its predictions for batches of them
trees.py        trees from its scores, and how good they are
roles.py        semantic roles from its scores
"""
