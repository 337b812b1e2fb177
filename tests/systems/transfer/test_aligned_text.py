"""Parallel text in a recipe: what is refused early, what the file says, what names a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evidence.bitext import WordAlignmentOptions
from relexify.recipes.recipe import read_recipe, recipe_text
from relexify.systems.transfer.aligned_text import check_bitext, count_aligned_tokens
from relexify.systems.transfer.checks import check_recipe
from relexify.systems.transfer.grafts import transfer_identity
from relexify.systems.transfer.options import METHODS, Transfer
from tests import pico

OLD, NEW = pico.byte_level(), pico.byte_level(pico.sentences(words=pico.foreign_words()))


@pytest.fixture
def recipe(tmp_path):
    english, foreign = pico.sentences(50, seed=1), pico.sentences(50, seed=1, words=pico.foreign_words())
    (tmp_path / "text.txt").write_text("\n".join(foreign))
    (tmp_path / "bitext.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(english, foreign, strict=True)))
    (tmp_path / "links.txt").write_text("0-0\n" * 50)
    return Transfer(
        model="nobody/nothing",
        output=tmp_path / "out",
        corpus=str(tmp_path / "text.txt"),
        method="ramen",
        bitext=str(tmp_path / "bitext.tsv"),
        alignment=tmp_path / "links.txt",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bitext": None}, "ramen needs parallel text"),
        ({"bitext": None, "method": "blend"}, "alignment is given without its parallel text"),
        ({"bitext": "nowhere.tsv"}, r"nowhere\.tsv does not exist"),
        ({"alignment": "nowhere.txt"}, r"nowhere\.txt does not exist"),
        ({"alignment": None, "aligning": WordAlignmentOptions(units="words")}, "is for a ready alignment"),
        ({"aligning": WordAlignmentOptions(symmetrisation="both")}, "symmetrisation = 'both'"),
        ({"aligning": WordAlignmentOptions(units="letters")}, "units = 'letters'"),
        ({"aligning": WordAlignmentOptions(fields=("en",))}, "1 fields are named"),
        ({"aligning": WordAlignmentOptions(most_pairs=0)}, "most_pairs = 0"),
        ({"aligning": WordAlignmentOptions(min_count=-1)}, "min_count = -1"),
        ({"aligning": WordAlignmentOptions(smoothing=float("nan"))}, "smoothing = nan"),
    ],
)
def test_what_would_stop_the_work_is_refused_before_it_begins(recipe, changes, message):
    check_recipe(recipe)
    with pytest.raises(InputError, match=message):
        check_recipe(replace(recipe, **changes))


def test_a_damaged_line_is_refused_before_the_work_begins(recipe, tmp_path):
    (tmp_path / "bitext.tsv").write_text("one\teins\ntwo\n")
    with pytest.raises(InputError, match=r"bitext\.tsv, line 2, has no tab"):
        check_recipe(recipe)


def test_a_missing_aligner_is_told_early_and_only_where_it_is_needed(recipe, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)
    check_bitext(recipe)
    check_bitext(replace(recipe, alignment=None, method="fvt"))
    for method in ("ramen", "trans-tokens", "blend"):
        with pytest.raises(MissingExtra, match="eflomal"):
            check_bitext(replace(recipe, alignment=None, method=method))


def test_an_aligner_is_not_missed_where_an_earlier_run_aligned_the_text(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    unaligned = replace(recipe, alignment=None)
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    found = count_aligned_tokens(unaligned, OLD, NEW)
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)
    check_bitext(unaligned)
    assert (count_aligned_tokens(unaligned, OLD, NEW) != found).nnz == 0
    (tmp_path / "bitext.tsv").write_text("one\teins\n")
    with pytest.raises(MissingExtra, match="eflomal"):
        check_bitext(unaligned)


def test_methods_name_the_evidence_they_make_no_use_of():
    assert "bitext" not in METHODS["blend"].unused
    assert METHODS["ramen"].unused == ("dictionary", "rotation", "source_vectors", "target_vectors", "source_corpus")
    assert METHODS["ramen-vectors"].unused == ("dictionary", "bitext", "alignment")
    assert METHODS["wechsel"].unused == ("bitext", "alignment")


def test_evidence_without_use_is_told(recipe, caplog):
    check_recipe(replace(recipe, method="wechsel"))
    assert "makes no use of --bitext, --alignment" in caplog.text


def test_links_of_words_and_links_of_tokens_are_counted_as_such(recipe):
    tokens = count_aligned_tokens(recipe, OLD, NEW)
    words = count_aligned_tokens(replace(recipe, aligning=WordAlignmentOptions(units="words")), OLD, NEW)
    assert tokens.shape == words.shape == (len(NEW), len(OLD))
    assert tokens.sum() == 50, "one token of the first word each"
    first_words = [line.split()[0] for line in pico.sentences(50, seed=1, words=pico.foreign_words())]
    assert words.sum() == pytest.approx(sum(len(ids) for ids in NEW(first_words).input_ids))


def test_a_recipe_file_says_everything_and_is_written_back(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        'title = "t"\noutput = "out"\nmodel = "gpt2"\ncorpus = "new.txt"\n[transfer]\nmethod = "ramen"\n'
        'bitext = ["a.tsv", "news.{en,sw}"]\nalignment = "links.txt"\n'
        '[transfer.aligning]\nsymmetrisation = "union"\nunits = "words"\nfields = ["en", "sw"]\nmin_count = 2\n'
    )
    recipe = read_recipe(file)
    assert recipe.transfer.bitext == (str(tmp_path / "a.tsv"), str(tmp_path / "news.{en,sw}"))
    assert recipe.transfer.alignment == tmp_path / "links.txt"
    assert recipe.transfer.aligning == WordAlignmentOptions("union", "words", ("en", "sw"), min_count=2.0)
    (tmp_path / "again.toml").write_text(recipe_text(recipe))
    assert read_recipe(tmp_path / "again.toml") == recipe


def test_an_unknown_symmetrisation_in_a_file_is_refused_with_its_place(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        'title = "t"\noutput = "out"\nmodel = "gpt2"\ncorpus = "new.txt"\n[transfer]\nmethod = "ramen"\n'
        '[transfer.aligning]\nsymmetrisation = "grow"\n'
    )
    with pytest.raises(InputError, match=r"transfer\.aligning\.symmetrisation"):
        read_recipe(file)


def test_the_identity_of_a_transfer_follows_the_content_of_its_parallel_text(recipe, tmp_path):
    before = transfer_identity(recipe)
    (tmp_path / "renamed.tsv").write_bytes((tmp_path / "bitext.tsv").read_bytes())
    assert transfer_identity(replace(recipe, bitext=str(tmp_path / "renamed.tsv"))) == before
    assert transfer_identity(replace(recipe, aligning=WordAlignmentOptions("union"))) != before
    (tmp_path / "links.txt").write_text("0-0\n" * 49 + "1-1\n")
    changed = transfer_identity(recipe)
    assert changed != before
    (tmp_path / "bitext.tsv").write_text("a\tb\n" * 50)
    assert transfer_identity(recipe) != changed
