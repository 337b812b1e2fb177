"""The language-modelling loss, without materialising all logits.

forward.py   make a model return its loss instead of logits
chunked.py   compute head and cross entropy together, in chunks of positions
"""
