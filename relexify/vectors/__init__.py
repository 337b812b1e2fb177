"""Word vectors: reading, training, looking up and aligning them."""

from relexify.vectors.alignment import Rotation, align
from relexify.vectors.fasttext_binary import read_fasttext
from relexify.vectors.gensim_training import Sentences
from relexify.vectors.loading import load_vectors, save_vectors
from relexify.vectors.ngrams import Ngrams, ngram_buckets
from relexify.vectors.text_formats import read_text
from relexify.vectors.training import train_vectors
from relexify.vectors.training_options import VectorTraining
from relexify.vectors.word2vec_binary import read_word2vec_binary
from relexify.vectors.word_vectors import WordVectors

__all__ = [
    "Ngrams",
    "Rotation",
    "Sentences",
    "VectorTraining",
    "WordVectors",
    "align",
    "load_vectors",
    "ngram_buckets",
    "read_fasttext",
    "read_text",
    "read_word2vec_binary",
    "save_vectors",
    "train_vectors",
]
