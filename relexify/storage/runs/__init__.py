"""Unfinished work of runs: which run it belongs to, where it is, and how it is resumed.

work.py          `WorkFolder`: claim an output, keep unfinished work next to it, resume, finish, clean up
claims.py        which run a folder with unfinished work belongs to
checkpoints.py   seal, find and rotate the checkpoints of a training
"""
