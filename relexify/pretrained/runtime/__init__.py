"""What it takes to compute with a model on this machine.

precision.py   number formats for computing and for storing parameters
runnable.py    run a model without dropout; check for NaN and for enough memory
quiet.py       transformers without its progress bars and messages
"""
