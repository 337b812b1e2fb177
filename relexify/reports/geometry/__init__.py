"""Embeddings and hidden states in space.

measures.py   variance on main axes, similarity by layer, neighbours of a word, and how far embeddings have moved
inputs.py     what is measured: the hidden states of a text, and a word among tokens or word vectors
report.py     plot models side by side, as `relexify geometry` does
plots.py      scatters, curves and neighbourhoods
"""
