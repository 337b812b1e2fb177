"""The training engine: stages, data, loss and checkpoints. It knows no particular system."""
