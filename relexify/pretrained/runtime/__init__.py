"""Compute with a model on this machine.

precision.py   number formats for computing and for storing parameters
runnable.py    run a model without dropout; check for NaN and for enough memory
quiet.py       hide the progress bars and messages of transformers
"""
