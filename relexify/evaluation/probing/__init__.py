"""Linear probes on frozen features.

probes.py     train and score a probe
features.py   what it predicts from: means of hidden states
"""
