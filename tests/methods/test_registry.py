"""A new method is one file: everything that lists, validates or runs methods reads the registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from relexify.methods.registry import METHODS, Method
from relexify.systems.transfer.options import Transfer

MEAN = '''
"""The mean of the source embedding for every token."""

import numpy as np

from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, Origin, mixture_of_weights
from relexify.tokens import vocabulary_of


def mean(source, target) -> Mixture:
    source, target = vocabulary_of(source), vocabulary_of(target)
    weights = np.full((len(target), len(source)), 1 / len(source), np.float32)
    return mixture_of_weights(weights, source, target, method="mean", origin=Origin.MIXED)


METHODS.add(
    "mean",
    Method(
        becomes="the mean of the source embedding",
        evidence="nothing",
        paper="a test",
        build=lambda inputs: mean(inputs.source, inputs.target),
    ),
)
'''

PROGRAM = """
import sys, tomllib
from pathlib import Path

import relexify.methods

relexify.methods.__path__.append(sys.argv[1])  # as if the file lay in the package

import numpy as np
from typer.testing import CliRunner

from relexify import Transfer, read_recipe, transfer
from relexify.cli.app import app
from relexify.evidence.evidence import Evidence
from relexify.methods.registry import METHODS
from tests import pico

shown = CliRunner().invoke(app, ["methods"], terminal_width=200)
assert "│ mean " in shown.output, shown.output

folder = Path(sys.argv[1])
recipe = folder / "recipe.toml"
recipe.write_text(
    'output = "out"\\nmodel = "gpt2"\\ncorpus = "target.txt"\\n[transfer]\\nmethod = "mean"\\n[training]\\nsteps = 1\\n'
    '[compare]\\nruns = ["mean", "wechsel"]\\n'
)
read = read_recipe(recipe)
assert read.tables["transfer"].method == "mean"
assert read.compare.runs[0].method == "mean"

model, tokenizer = pico.pair("gpt2")
model.save_pretrained(folder / "model")
tokenizer.save_pretrained(folder / "model")
(folder / "target.txt").write_text("\\n".join(pico.sentences(200, words=pico.foreign_words())))
result = transfer(
    Transfer(str(folder / "model"), folder / "out", folder / "target.txt", method="mean", vocab_size=300, score=False)
)
rows = result.graft.model.get_input_embeddings().weight.detach().numpy()
mean = model.get_input_embeddings().weight.detach().numpy()[: len(tokenizer)].mean(axis=0)
assert np.allclose(rows, mean, atol=1e-6)
print("all of it")
"""


def test_a_new_method_is_one_file_and_appears_everywhere(tmp_path):
    (tmp_path / "mean.py").write_text(MEAN)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root), "RELEXIFY_CACHE": str(tmp_path / "cache")},
        check=False,
        capture_output=True,
        text=True,
        cwd=root,
    )
    assert done.stdout == "all of it\n", done.stderr


def test_every_method_describes_itself_and_the_default_is_one_of_them():
    assert Transfer("model", Path("out"), "text").method in METHODS
    for method in METHODS.values():
        assert method.becomes
        assert method.evidence
        assert method.paper


def test_importing_the_package_and_the_registry_does_not_import_torch():
    program = (
        "import sys, relexify\nassert 'numpy' not in sys.modules\n"
        "from relexify.methods.registry import METHODS\nassert 'trelm' in METHODS\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_a_method_takes_what_it_needs_and_what_it_uses():
    method = Method("…", "…", "…", build=lambda inputs: None, needs=("bitext",), uses=("overrides",))
    assert [method.takes(kind) for kind in ("bitext", "overrides", "vectors")] == [True, True, False]


def test_the_documentation_lists_every_method():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    _, *table = [line for line in page.splitlines() if line.startswith("| `")]
    assert table == [
        f"| `{name}` | {method.becomes} | {method.evidence} | {method.paper} |"
        for name, method in sorted(METHODS.items())
    ]
    for name in METHODS:
        assert f"\n## {name}\n" in page, name
