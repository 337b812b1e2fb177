"""One file for each verb, or for verbs that belong together. Heavy imports are inside the functions."""
