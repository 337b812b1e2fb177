"""How good a transferred model is before its training.

start.py        `Start`: all that is known about it
sampled_text.py  the text that it is examined with
examination.py  its rows and the text, and tests of the evidence
bitext.py       what parallel text contributes
dictionary.py   a test of the dictionary, against the model and the text
scores.py       bits per byte of the model and of baselines
verdict.py      whether this is a good start, and why
dictionary_verdict.py   whether the dictionary is good
samples.py      sentences under both tokenizers
summary.py      all of it in words and tables
"""
