"""The language-modelling loss, without materialising all logits.

forward.py   let a model return its loss instead of logits
chunked.py   head and cross entropy together, in chunks of positions
"""
