"""What users import, and how rooms may depend on each other."""

from __future__ import annotations

import subprocess
import sys

import relexify


def test_every_public_name_exists_once_and_the_list_is_sorted():
    names = [name for name in relexify.__all__ if name != "__version__"]
    assert len(names) == len(set(names))
    assert names == sorted(names, key=lambda name: (not name[0].isupper(), name))
    for name in names:
        assert getattr(relexify, name) is not None
    assert set(dir(relexify)) == set(relexify.__all__)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(relexify, "no_such_name")


def test_importing_relexify_and_the_evidence_loads_neither_torch_nor_transformers():
    code = (
        "import sys, relexify as rx; rx.Mixture, rx.WordVectors, rx.BilingualLexicon, rx.wechsel, rx.Corpus; "
        "assert not {'torch', 'transformers', 'gensim', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
