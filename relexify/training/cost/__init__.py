"""Estimate the cost of a training before it is run.

estimate.py    GPUs, memory and hours, with the requested options and with options that take less memory
stage.py       operations and bytes of a stage, counted from the shape of the model
hardware.py    the GPUs that estimates are for
here.py        the duration on this machine
peak.py        the speed of matrix products on this machine
measuring.py   speed and memory, measured in a few steps on this machine
"""
