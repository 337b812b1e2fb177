"""File formats of word vectors: fastText, word2vec, text and safetensors."""
