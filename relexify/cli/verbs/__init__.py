"""The verbs: one folder for each panel of the help, one file for each verb, or for verbs that belong together.

Heavy imports are inside the functions.
"""
