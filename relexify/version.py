"""The version of relexify."""

__version__ = "0.1.0"
