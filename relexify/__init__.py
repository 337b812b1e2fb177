"""relexify gives a pretrained language model a new language."""

__version__ = "0.1.0"
