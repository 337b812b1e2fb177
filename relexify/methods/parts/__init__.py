"""Components that several methods share.

copying.py                rows that need no translation: special, neutral and shared tokens
aligned.py                mix a token from the tokens that it is aligned with in parallel text
translations.py           mix a token from its translations in a dictionary
translated_neighbours.py  mix a token without a translation from the translations of its neighbours
vectors.py                vectors of words and tokens; words that align the vectors of two languages
vector_alignment.py       word vectors of two languages, and their alignment
token_space.py            vectors of both vocabularies in one space, and nearest tokens in it
"""
