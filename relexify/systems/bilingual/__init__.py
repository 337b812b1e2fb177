"""RAMEN: one encoder with the embeddings of two languages."""
