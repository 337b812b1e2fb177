"""Evidence about the target language.

evidence.py   `Evidence`: everything that a user provides, opened and validated once
lexicon/      bilingual dictionaries
vectors/      word vectors, and token vectors computed from them
bitext/       parallel text and its word alignment
alignment/    map the vectors of two languages into one space
"""
