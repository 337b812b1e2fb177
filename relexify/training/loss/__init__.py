"""The language-modelling loss, without materialising all logits."""
