"""Vector alignment without a dictionary, or with a small one.

options.py        how to search: `AdversarialTraining`
search.py         the search: frequency, principal axes, adversarial training; compared with chance
frequency.py      a first map from the frequency ranks of words (experimental)
adversarial.py    a map trained against a discriminator (Equations 1 and 2 of TreLM)
self_learning.py  a small dictionary, extended by mutual neighbours
spaces.py         two spaces: validated, prepared, compared by mutual neighbours, refined with Procrustes
"""
