"""Token distillation: fit the row of a new token to what the model computes from its source pieces.

    method.py   the method `token-distillation` of a transfer, and its options
    distil.py   the training: hidden states under both tokenizers, and rows that make them agree

Paper: Dobler et al., "Token Distillation: Attention-aware Input Embeddings For New Tokens".
"""
