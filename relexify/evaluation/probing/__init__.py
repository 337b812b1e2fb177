"""Linear probes on frozen features.

probes.py     train and score a probe
features.py   the features of a probe: means of hidden states
"""
