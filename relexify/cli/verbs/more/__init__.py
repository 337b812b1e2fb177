"""The demo, the list of methods, and plots."""
