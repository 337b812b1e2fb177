"""Recipes: a run as a TOML file.

recipe.py      read and write a recipe file
named.py       the recipes that come with relexify (shipped/), by name
schema.py      which keys a table has: the fields of a dataclass
reading.py     from a table to options, by the types of these fields
writing.py     from options back to a table
mistakes.py    from what is not valid to one sentence
overrides.py, paths.py, settings.py   values from the command line, names of files, `--set` of a single verb
run.py         run the steps of a recipe in a work folder, then its tasks
tasks.py       the tables `[[tasks]]`
compare/       variants of a recipe, trained side by side
advise/        which initialisation and which evidence to choose
demo.py        the demonstration
"""
