"""k-sub-embeddings: compress an embedding matrix into k small tables."""
