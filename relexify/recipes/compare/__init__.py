"""Train several initialisations side by side.

checks.py    whether a recipe can be compared
prepare.py   validate a comparison, and make its trials
run.py       run all trials, and report on them
trials.py    one trial: run it, resume it, read its result
"""
