"""Optimisers, besides those of the Trainer.

groups.py       which parameters are trained by Muon, and which by AdamW at what rate
muon.py         Muon and AdamW as one optimiser
low_memory.py   AdamW with moments in 8 bits, or paged to the host (bitsandbytes)
lookahead.py    Lookahead around Adam
average.py      a moving average of the weights
"""
