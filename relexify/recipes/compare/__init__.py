"""Train several initialisations side by side.

options.py   the table `[compare]`
checks.py    whether a recipe can be compared
run.py       run all trials, and report on them
trials.py    one trial: run it, resume it, read its result
"""
