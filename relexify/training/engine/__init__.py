"""Run one stage after another with the Hugging Face Trainer."""
