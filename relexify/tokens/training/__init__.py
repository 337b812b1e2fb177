"""Train tokenizers.

train.py       a tokenizer of the same type as another
marks.py       keep combining marks, which many tokenizers delete or split words at
dotless_i.py   lower case in Turkish, Azerbaijani and Tatar
wordpiece.py   WordPiece whose result depends only on the text
joint.py       one vocabulary for several languages
"""
