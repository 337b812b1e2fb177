"""Settings of every test run, in one process or in several."""

from __future__ import annotations

import os

# A worker of pytest-xdist is given the width of a terminal, which would be kept when the console is made.
os.environ.pop("COLUMNS", None)
