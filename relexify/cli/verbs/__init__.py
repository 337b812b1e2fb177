"""The verbs: one folder for each panel of the help, one file for each verb, or for verbs that belong together.

Every verb has the same order: it makes its options, validates whatever can be validated without torch, announces that
torch is loaded (`say_loading`), imports what needs it, calls one function, prints the result, and gives it to `emit`.
Importing torch and transformers takes seconds, so invalid input is rejected before.
"""
