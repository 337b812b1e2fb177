"""What several methods are made of.

copying.py       rows that need no translation: special, neutral and shared tokens
translations.py  a token as its translations in a dictionary
anchors.py       a token whose meaning is not known, from tokens of its language whose meaning is
token_space.py   vectors of both vocabularies in one space, and nearest tokens in it
"""
