"""Word vectors: read, train and look them up, for words and for tokens.

word_vectors.py      `WordVectors`: vectors of words, and of any text that its n-grams cover
ngrams.py            fastText's character n-grams
formats/             read files of fastText, word2vec and GloVe
mapped_rows.py       read rows of a file that is larger than memory
options.py           options of the training of vectors
sentences.py         split the text into lists of words, in several processes
shares.py            exchange counts between several hosts
training.py          train vectors on text
counting.py, gensim_training.py   the two ways to train: by counting, or with fastText
subwords.py          vectors of tokens, from n-grams or from words
normalised.py        the same for tokenizers that lower-case text or remove accents
"""

from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.options import VectorTraining
from relexify.evidence.vectors.sentences import EachLine, SplitText
from relexify.evidence.vectors.shares import ShardsLost
from relexify.evidence.vectors.subwords import (
    Subwords,
    SubwordVectors,
    subword_vectors,
    subwords_from_ngrams,
    subwords_from_words,
)
from relexify.evidence.vectors.training import train_vectors
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = [
    "EachLine",
    "Ngrams",
    "ShardsLost",
    "SplitText",
    "SubwordVectors",
    "Subwords",
    "VectorTraining",
    "WordVectors",
    "ngram_buckets",
    "subword_vectors",
    "subwords_from_ngrams",
    "subwords_from_words",
    "train_vectors",
]
