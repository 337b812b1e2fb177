"""Dependency parsing, and semantic roles, with a biaffine parser.

training.py     train and test a parser, once for each seed
biaffine.py     the parser: a layer on any model of transformers
inputs.py       encode sentences as inputs of the parser; predict in batches
trees.py        decode trees from the parser's scores, and evaluate them
roles.py        decode semantic roles from the parser's scores, and evaluate them
"""
