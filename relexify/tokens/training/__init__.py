"""Train tokenizers.

train.py       a tokenizer of the same type as another
marks.py       combining marks, at which many tokenizers split words, or which they delete
dotless_i.py   lower case in Turkish, Azerbaijani and Tatar
wordpiece.py   WordPiece whose result depends only on the text
joint.py       one vocabulary for several languages
"""
