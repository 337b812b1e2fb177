"""The text of TreLM: sentence pairs, and the rows of a batch.

pairs.py            sentence pairs with their word alignment
batches.py          rows of parallel text, and masked sentences
next_sentences.py   rows of text for next-sentence prediction
"""
