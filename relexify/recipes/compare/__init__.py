"""Train several initialisations side by side."""
