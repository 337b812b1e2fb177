"""Entries register themselves when the registry is first used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.registry import FEW_NAMES, Registry, search_in, suggestion


def test_modules_of_a_searched_package_register_at_the_first_lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "plugins_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("from relexify.registry import Registry\nTHINGS = Registry('thingum')\n")
    (package / "one.py").write_text("from plugins_of_a_test import THINGS\nTHINGS.add('one', 1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import plugins_of_a_test  # type: ignore[import-not-found]

    search_in("thingum", "plugins_of_a_test")
    assert "plugins_of_a_test.one" not in sys.modules
    assert dict(plugins_of_a_test.THINGS) == {"one": 1}
    assert len(plugins_of_a_test.THINGS) == 1


def test_an_unknown_name_suggests_the_closest_one():
    things: Registry[int] = Registry("method")
    things.add("wechsel", 1)
    assert things.get_or_raise("wechsel") == 1
    with pytest.raises(InputError, match="there is no method 'wexel': did you mean 'wechsel'"):
        things.get_or_raise("wexel")
    with pytest.raises(InputError, match="choose wechsel"):
        things.get_or_raise("zzz")


def test_of_many_names_only_those_with_the_same_word_are_listed():
    many = ["donor", "learning_rate", "embedding_learning_rate", *(f"key{number}" for number in range(FEW_NAMES))]
    listed = f"relexify options lists all {len(many)}"
    similar = suggestion("rate", many, listed_by="relexify options")
    assert similar == f"similar: learning_rate, embedding_learning_rate; {listed}"
    assert suggestion("foo", many, listed_by="relexify options") == listed  # not donor, which has two letters of it
    assert suggestion("foo", many).startswith("choose one of donor, learning_rate, embedding_learning_rate, key0")
    assert suggestion("foo", many[:3], listed_by="relexify options").startswith("choose one of")


def test_two_entries_of_one_name_are_an_error():
    things: Registry[int] = Registry("method")
    things.add("a", 1)
    with pytest.raises(ValueError, match="two entries"):
        things.add("a", 2)
