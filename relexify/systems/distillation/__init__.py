"""Token distillation: train the row of a new token to give the same hidden states as its source pieces.

    method.py    the method `token-distillation` of a transfer
    options.py   its options
    distil.py    the training: compare hidden states under both tokenizers, and fit the rows

Paper: Dobler et al., "Token Distillation: Attention-aware Input Embeddings For New Tokens".
"""
