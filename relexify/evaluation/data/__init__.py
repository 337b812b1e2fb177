"""Readers of task data.

files.py          the files of a task, and the data in them
examples.py       labelled texts and pairs of texts
records.py        records of json files and of Hub data sets, used by several readers
choices.py        questions with several answers to choose from
answers.py        questions that a part of a text answers
columns.py        tagged words
treebank.py       dependency trees
propositions.py   predicates with their senses and arguments
"""
