"""Evidence about the target language: dictionaries, word vectors, parallel text, alignments."""
