"""Bilingual models, TreLM, and smaller vocabularies and embeddings."""
