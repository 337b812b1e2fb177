"""Recipes: a run as a TOML file.

file/       read and write a recipe, and validate it
shipped/    the recipes that come with relexify
run.py      run the steps of a recipe in a work folder, then its tasks
tasks.py    evaluate the models of a recipe on its tasks
compare/    variants of a recipe, trained side by side
advise/     which initialisation and which evidence to choose
demo.py     the demonstration
"""
