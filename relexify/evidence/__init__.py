"""Evidence about the target language.

evidence.py   `Evidence`: everything that a user gives, opened and validated once
lexicon/      bilingual dictionaries
vectors/      word vectors, and vectors of tokens made from them
bitext/       parallel text and its word alignment
alignment/    map the vectors of two languages into one space
"""
