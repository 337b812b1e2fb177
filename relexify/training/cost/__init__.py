"""What a training costs, before it is run.

estimate.py    GPUs, memory and hours, as requested and with options that take less memory
stage.py       what a stage needs: operations and bytes, counted from the shape of the model
hardware.py    the GPUs that estimates are for
here.py        how long it takes on this machine
peak.py        how fast this machine multiplies matrices
measuring.py   speed and memory, measured in a few steps on this machine
"""
