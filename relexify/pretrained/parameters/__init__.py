"""The parameters of a model: parameters of the vocabulary, new heads, untrained models.

lexical.py        find the parameters that belong to the vocabulary
heads.py          add a language-modelling head
fresh.py          build untrained models
same_encoder.py   check that two models differ only in the vocabulary
"""
