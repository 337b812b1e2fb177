"""Fine-tune a model on a task and score it."""
