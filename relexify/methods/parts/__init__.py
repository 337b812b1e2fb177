"""What several methods are made of.

copying.py                rows that need no translation: special, neutral and shared tokens
aligned.py                a token as what it is aligned with in parallel text
translations.py           a token as its translations in a dictionary
translated_neighbours.py  a token without a translation as those of its neighbours
vectors.py                vectors of words and tokens, and the words that align those of two languages
vector_alignment.py       word vectors of two languages, and what aligns them
token_space.py            vectors of both vocabularies in one space, and nearest tokens in it
"""
