"""The file of a recipe: what it may contain, and how it is read, changed and written.

recipe.py      read and write a recipe
named.py       the recipes that come with relexify, by name
comparison.py, tasks.py   the tables `[compare]` and `[[tasks]]`; each system registers its own (`relexify/steps.py`)
schema.py      which keys a table has: the fields of a dataclass
reading.py     from a table to options, by the types of these fields
writing.py     from options back to a table
mistakes.py    from what is not valid to one sentence
paths.py       names of files: variables, and what they are relative to
overrides.py   values in place of those in the file, such as `training.steps=500`
settings.py    the same for the options of a single verb, `--set`
"""
