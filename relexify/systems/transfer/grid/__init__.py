"""Search a grid of neighbours and temperatures.

cells.py   `GridSearch`, the cells that it consists of, their table, and the best one
run.py     transfer and score every cell, and resume
"""
