"""Vector alignment without a dictionary, or with a small one.

options.py        options of the search: `AdversarialTraining`
search.py         the search by frequency, principal axes and adversarial training; comparison with chance
frequency.py      a first map from the frequency ranks of words (experimental)
adversarial.py    a map trained against a discriminator (Equations 1 and 2 of TreLM)
self_learning.py  a small dictionary, extended by mutual neighbours
spaces.py         validate and prepare two spaces, compare them by mutual neighbours, refine maps with Procrustes
"""
