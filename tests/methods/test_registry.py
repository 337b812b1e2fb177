"""A new method is one file: everything that lists, validates or runs methods reads the registry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from relexify.methods.registry import METHODS, Method
from relexify.systems.transfer.options import Transfer

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import relexify as rx

from relexify import Transfer, read_recipe, transfer
from relexify.cli.app import app
from relexify.methods.registry import METHODS
from relexify.mixture import Origin
from tests import pico

assert rx.methods.mean.__module__ == "relexify.methods.mean"  # the function, as for every other method
shown = CliRunner().invoke(app, ["methods"], terminal_width=200)
assert "\\nmean " in shown.output, shown.output

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
mixture = result.graft.mixture
assert mixture.weights.nnz == (mixture.origin == Origin.SPECIAL).sum() > 0
rows = result.graft.model.get_input_embeddings().weight.detach().numpy()
mean = model.get_input_embeddings().weight.detach().numpy()[: len(tokenizer)].mean(axis=0)
assert np.allclose(rows[~mixture.known], mean, atol=1e-6)
print("all of it")
"""


def test_the_method_of_the_contributing_guide_is_one_file_and_appears_everywhere(tmp_path):
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    (mean,) = re.findall(r'^```python\n(""".*?)^```', guide, flags=re.MULTILINE | re.DOTALL)
    package = shutil.copytree(ROOT / "relexify", tmp_path / "relexify", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "methods" / "mean.py").write_text(mean)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",  # the copy, and the tests beside the original
            "RELEXIFY_CACHE": str(tmp_path / "cache"),
        },
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
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
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_a_method_takes_what_it_needs_and_what_it_uses():
    method = Method("…", "…", "…", build=lambda inputs: None, needs=("bitext",), uses=("overrides",))
    assert [method.takes(kind) for kind in ("bitext", "overrides", "vectors")] == [True, True, False]


def test_an_input_that_another_replaces_is_taken_only_without_it():
    method = Method(
        "…",
        "…",
        "…",
        build=lambda inputs: None,
        uses=("vectors", "dictionary"),
        replaced_by={"vectors": ("dictionary",)},
    )
    assert method.takes("vectors")
    assert method.takes("vectors", beside=["bitext"])
    assert not method.takes("vectors", beside=["dictionary"])
    assert method.takes("dictionary", beside=["dictionary"])


def test_the_documentation_lists_every_method():
    page = (ROOT / "docs" / "methods.md").read_text()
    overview = page.partition("\n## ")[0]
    _, *table = [line for line in overview.splitlines() if line.startswith("| `")]
    assert table == [
        f"| `{name}` | {method.becomes} | {method.evidence} | {method.paper} |"
        for name, method in sorted(METHODS.items())
    ]
    for name in METHODS:
        assert f"\n## {name}\n" in page, name
