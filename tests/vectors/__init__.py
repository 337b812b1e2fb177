"""Tests of relexify.vectors."""
