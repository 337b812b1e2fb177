"""How long a user waits for an import, help or an error: CPU seconds, beside those of Python, numpy and bare typer.

    python benchmarks/startup.py

A typer program with one verb is the floor for `relexify VERB --help`, and numpy that for `import relexify`; the least
of all repeats counts, because other processes only ever add time. Errors are those of a missing text and of misspelt
names, before torch is imported. Modules are compiled in the first repeat and read from there in the others, as in an
installed package, even if PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

TYPER = """
import typer
app = typer.Typer()
@app.callback()
def options(debug: bool = False) -> None: "Do something."
@app.command()
def verb(name: str, number: int = 1) -> None: "Do one thing."
app()
"""
RECIPE = "output = 'out'\nmodel = 'gpt2'\ncorpus = 'text.txt'\n[transfer]\nmethdo = 'blend'\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repeats", type=int, nargs="?", default=5, help="of every command; default: %(default)s")
    repeats = parser.parse_args().repeats
    relexify = ("-m", "relexify")
    with TemporaryDirectory() as folder:
        (Path(folder) / "bare.py").write_text(TYPER)
        (Path(folder) / "recipe.toml").write_text(RECIPE)
        commands = {
            "python -c pass": ("-c", "pass"),
            "import numpy": ("-c", "import numpy"),
            "import relexify": ("-c", "import relexify"),
            "bare typer: --help": ("bare.py", "--help"),
            "bare typer: verb --help": ("bare.py", "verb", "--help"),
            "relexify --help": (*relexify, "--help"),
            "relexify transfer --help": (*relexify, "transfer", "--help"),
            "relexify train --help": (*relexify, "train", "--help"),
            "relexify run --help": (*relexify, "run", "--help"),
            "transfer, no such text": (*relexify, "transfer", "gpt2", "out", "--corpus", "none.txt"),
            "transfer, no such method": (
                *relexify,
                "transfer",
                "gpt2",
                "out",
                "--corpus",
                "bare.py",
                "--method",
                "blnd",
            ),
            "train, no such plan": (*relexify, "train", "gpt2", "out", "--corpus", "bare.py", "--plan", "no"),
            "evaluate, no such text": (*relexify, "evaluate", "gpt2", "--held-out", "none.txt"),
            "run, no such recipe": (*relexify, "run", "none"),
            "run, misspelt key": (*relexify, "run", "recipe.toml"),
        }
        print(f"{'':28}{'CPU s':>8}{'× typer':>9}{'× python':>10}")
        seconds = {name: min(_cpu_seconds(words, folder) for _ in range(repeats)) for name, words in commands.items()}
        empty, typer = seconds["python -c pass"], seconds["bare typer: verb --help"]
        for name, taken in seconds.items():
            print(f"{name:28}{taken:8.2f}{taken / typer:9.2f}{taken / empty:10.1f}")


def _cpu_seconds(words: tuple[str, ...], folder: str) -> float:
    """Return the CPU time of a command, user and system."""
    paths = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
    environment = {**os.environ, **paths, "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
