"""What a trained model is worth on a task: inference, entities, tags, trees."""
