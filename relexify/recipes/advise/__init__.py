"""Advice: which initialisation suits a model, a language and the evidence at hand, before a long training.

options.py    `Advise`: what to try, and for how long; which methods apply
evidence.py   what the evidence is worth, measured without training: text covered, held-out dictionary words
dry_run.py    what an advice would do, without doing it
run.py        short trainings of all applicable methods, through `relexify.recipes.compare`
summary.py    the advice in words and tables, and the command that transfers the model as the best run did
"""
