"""Everything that depends on Hugging Face: architectures, loading, the Hub, packaged weights."""
