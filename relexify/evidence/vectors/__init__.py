"""Word vectors: read, train and look them up, for words and for tokens."""

from relexify.evidence.vectors.formats.fasttext import read_fasttext
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.evidence.vectors.formats.word2vec import read_text_vectors, read_word2vec_binary
from relexify.evidence.vectors.gensim_training import Sentences
from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.options import VectorTraining
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
    "Ngrams",
    "Sentences",
    "SubwordVectors",
    "Subwords",
    "VectorTraining",
    "WordVectors",
    "load_vectors",
    "ngram_buckets",
    "read_fasttext",
    "read_text_vectors",
    "read_word2vec_binary",
    "subword_vectors",
    "subwords_from_ngrams",
    "subwords_from_words",
    "train_vectors",
]
