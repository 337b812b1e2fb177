"""Validation before a transfer starts, and the fingerprint of a transfer."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evidence.bitext import WordAlignmentOptions
from relexify.methods.registry import METHODS
from relexify.recipes.file.recipe import read_recipe, recipe_text
from relexify.storage.fingerprint import fingerprint
from relexify.systems.transfer.checks import check_transfer
from relexify.systems.transfer.options import Transfer, method_options, unused_options, with_method, without_evidence
from tests import pico


@pytest.fixture
def options(tmp_path):
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
        score=False,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bitext": None}, "ramen needs parallel text"),
        ({"bitext": None, "method": "blend"}, "alignment is given without its parallel text"),
        ({"bitext": "nowhere.tsv"}, r"nowhere\.tsv does not exist"),
        ({"alignment": "nowhere.txt"}, r"nowhere\.txt does not exist"),
        ({"alignment": None, "aligning": WordAlignmentOptions(units="words")}, "is for a given word alignment"),
        ({"aligning": WordAlignmentOptions(symmetrisation="both")}, "`aligning.symmetrisation=both`"),
        ({"aligning": WordAlignmentOptions(units="letters")}, "`aligning.units=letters`"),
        ({"aligning": WordAlignmentOptions(fields=("en",))}, "1 fields are named"),
        ({"aligning": WordAlignmentOptions(most_pairs=0)}, "`aligning.most_pairs=0`"),
        ({"aligning": WordAlignmentOptions(min_count=-1)}, "`aligning.min_count=-1`"),
        ({"aligning": WordAlignmentOptions(smoothing=float("nan"))}, "`aligning.smoothing=nan`"),
        ({"temperature": 0.0}, "`temperature="),
        ({"temperature": float("nan")}, "`temperature="),
        ({"held_out_bytes": 0}, "`held_out_bytes="),
        ({"aligned_by": "magic"}, "`aligned_by=magic` is not possible: choose one of dictionary"),
        ({"method": "trelm", "aligned_by": "random"}, "trelm is not aligned by 'random'"),
        ({"method": "wechsl"}, "did you mean 'wechsel'"),
        ({"method": "trelm"}, "trelm needs text of the model's language"),
        ({"method": "random", "overrides": {"a": "b"}}, "random takes no overrides"),
        ({"dictionary": "nowhere.tsv"}, r"nowhere\.tsv does not exist"),
        ({"options": {"colour": 1}}, "no method has an option 'colour'"),
    ],
)
def test_invalid_options_and_files_are_rejected_before_any_work(options, changes, message):
    check_transfer(options)
    with pytest.raises(InputError, match=message):
        check_transfer(replace(options, **changes))


def test_a_line_without_a_translation_is_rejected_before_any_work(options, tmp_path):
    (tmp_path / "bitext.tsv").write_text("one\teins\ntwo\n")
    with pytest.raises(InputError, match=r"bitext\.tsv, line 2, has no tab"):
        check_transfer(options)


def test_a_missing_aligner_is_reported_early_and_only_if_it_is_needed(options, monkeypatch):
    monkeypatch.setitem(sys.modules, "eflomal", None)
    check_transfer(options)
    check_transfer(replace(options, alignment=None, method="fvt"))
    for method in ("ramen", "trans-tokens", "blend"):
        with pytest.raises(MissingExtra, match="eflomal"):
            check_transfer(replace(options, alignment=None, method=method))


def test_methods_name_the_evidence_that_they_do_not_use():
    assert "bitext" not in unused_options(METHODS["blend"])
    assert unused_options(METHODS["ramen"]) == (
        "dictionary",
        "rotation",
        "source_vectors",
        "target_vectors",
        "source_corpus",
        "donor",
    )
    assert unused_options(METHODS["ramen-vectors"]) == ("dictionary", "bitext", "alignment", "donor")
    assert unused_options(METHODS["wechsel"]) == ("bitext", "alignment", "donor")
    assert unused_options(METHODS["trelm"]) == (
        "dictionary",
        "rotation",
        "source_vectors",
        "bitext",
        "alignment",
        "donor",
    )


def test_a_dictionary_given_as_text_is_reported(options, tmp_path, caplog):
    check_transfer(options)
    assert "looks like a dictionary" not in caplog.text
    words = pico.foreign_words()
    for separator in ("\t", " "):
        (tmp_path / "words.txt").write_text("".join(f"the{separator}{word}\n" for word in words[:50]))
        caplog.clear()
        check_transfer(replace(options, corpus=str(tmp_path / "words.txt")))
        assert "lines are pairs of words: give ordinary sentences as `corpus`" in caplog.text


@pytest.mark.parametrize(
    ("lines", "held_out_bytes", "message"),
    [
        (4, None, "only 400 bytes of held-out text are scored, too few for a verdict: give 1,000 bytes or more as `h"),
        (5, None, "only 500 bytes of held-out text are scored, too few to rely on the scores: give 1,000 bytes or"),
        (9, None, "only 900 bytes of held-out text are scored, too few to rely on the scores"),
        (10, None, ""),
        (1_000, 8_192, ""),
        (1_000, 450, "only 400 bytes of held-out text are scored, too few for a verdict: score more of it (`held"),
        (1_000, 1_050, ""),
        (
            1_000,
            990,
            "only 900 bytes of held-out text are scored, too few to rely on the scores: score more of it (`held",
        ),
        (9, 990, "only 900 bytes of held-out text are scored, too few to rely on the scores: give 1,000 bytes or"),
        (1_000, 2_000, ""),
    ],
)
def test_too_little_text_to_score_on_is_reported_before_any_work(
    options, tmp_path, caplog, lines, held_out_bytes, message
):
    (tmp_path / "held.txt").write_text(f"{'held out '.ljust(99, 'x')}\n" * lines)
    given = replace(options, held_out=tmp_path / "held.txt", held_out_bytes=held_out_bytes)
    for score in (True, False):
        caplog.clear()
        check_transfer(replace(given, score=score))
        said = [record.getMessage() for record in caplog.records if "bytes of held-out text" in record.getMessage()]
        assert len(said) == (score and bool(message))
        assert all(message in each for each in said)


def test_a_vocabulary_that_is_too_large_for_its_text_is_reported_before_any_work(options, tmp_path, caplog):
    (tmp_path / "text.txt").write_text("a few words\n" * 50_000)  # 594,000 bytes without those held out
    for size, advised in ((32_000, 5_900), (6_000, 5_900), (5_900, None), (500, None)):
        caplog.clear()
        check_transfer(replace(options, vocab_size=size))
        warnings = [record.getMessage() for record in caplog.records if "is little for" in record.getMessage()]
        assert len(warnings) == (advised is not None)
        assert all(f"594 kB of text is little for {size:,} tokens" in text for text in warnings)
        assert all(f"(`vocab_size={advised}`)" in text for text in warnings)
    caplog.clear()
    check_transfer(replace(options, tokenizer="smollm2-135m"))
    assert "is little for" not in caplog.text


def test_no_vocabulary_is_advised_that_is_no_smaller(options, caplog):
    check_transfer(replace(options, vocab_size=900))
    assert "is little for 900 tokens" in caplog.text
    assert "a smaller vocabulary" not in caplog.text


@pytest.mark.parametrize(
    ("kilobytes", "advised"), [(10, None), (60, None), (100, None), (103, 1_000), (400, 3_900), (3_200, 31_000)]
)
def test_an_advised_vocabulary_is_not_too_large_itself(options, tmp_path, caplog, kilobytes, advised):
    (tmp_path / "text.txt").write_text("some words\n" * (kilobytes * 1_000 // 11))
    check_transfer(replace(options, vocab_size=32_000))
    assert "give more text, 3.2 MB or more" in caplog.text
    found = re.findall(r"vocab_size=(\d+)", caplog.text)
    assert found == ([] if advised is None else [str(advised)])
    caplog.clear()
    for size in found:
        check_transfer(replace(options, vocab_size=int(size)))
    assert "is little for" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "fvt", "neighbours": 5}, "the method fvt makes no use of `bitext`, `alignment`, `neighbours`"),
        ({"vocab_size": 300, "tokenizer": "smollm2-135m"}, "`vocab_size` has no effect, because `tokenizer`"),
        ({"dictionary_swapped": True}, "`dictionary_swapped` has no effect without `dictionary`"),
    ],
)
def test_options_without_effect_are_reported(options, changes, message, caplog):
    check_transfer(replace(options, **changes))
    assert message in caplog.text


def test_unused_evidence_is_reported(options, caplog):
    check_transfer(replace(options, method="wechsel"))
    assert "makes no use of `bitext`, `alignment`" in caplog.text


def test_evidence_that_other_methods_use_is_not_reported(options, caplog):
    vectors = replace(options, source_corpus=options.corpus, method="blend", target_vectors=None)
    check_transfer(vectors, report_unused=False)
    assert "makes no use" not in caplog.text


def test_options_that_translations_replace_are_reported(options, caplog):
    vectors = replace(options, source_corpus=options.corpus, neighbours=5, aligned_by="identical", target_vectors=None)
    check_transfer(replace(vectors, method="blend"))
    expected = "the method blend makes no use of `source_corpus`, `neighbours`, `aligned_by` beside `bitext`"
    assert expected in caplog.text
    caplog.clear()
    check_transfer(replace(vectors, method="blend", bitext=None, alignment=None))
    check_transfer(replace(vectors, method="wechsel", bitext=None, alignment=None))
    check_transfer(replace(options, method="blend"))
    assert "makes no use" not in caplog.text


def test_options_for_another_method_leave_out_what_it_does_not_use(options):
    other = with_method(replace(options, overrides={"a": "b"}, dictionary="d.tsv"), "random")
    assert (other.method, other.bitext, other.alignment, other.dictionary) == ("random", None, None, None)
    assert other.overrides == {}
    assert with_method(options, "trans-tokens") == replace(options, method="trans-tokens")


def test_a_run_can_leave_out_evidence_by_name(options):
    both = replace(options, method="blend", dictionary="d.tsv")
    assert without_evidence(both, ["bitext", "alignment"]) == replace(both, bitext=None, alignment=None)
    with pytest.raises(InputError, match="no evidence 'bitex': did you mean 'bitext'"):
        without_evidence(both, ["bitex"])


def test_a_method_validates_its_own_options_and_ignores_those_of_others(options):
    given = {"alphabet": 50, "map": "orthogonal"}
    assert method_options(replace(options, options=given)) is None
    own = method_options(replace(options, method="trelm", options=given))
    assert (own.alphabet, own.map) == (50, "orthogonal")
    with pytest.raises(InputError, match="`alphabet=0`"):
        method_options(replace(options, method="trelm", options={"alphabet": 0}))
    with pytest.raises(InputError, match="`map=curved` is not possible: choose linear or orthogonal"):
        method_options(replace(options, method="trelm", options={"map": "curved"}))


def test_a_recipe_file_has_the_options_and_is_written_back(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        'title = "t"\noutput = "out"\nmodel = "gpt2"\ncorpus = "new.txt"\n[transfer]\nmethod = "ramen"\n'
        'bitext = ["a.tsv", "news.{en,sw}"]\nalignment = "links.txt"\nalphabet = 30\n'
        '[transfer.aligning]\nsymmetrisation = "union"\nunits = "words"\nfields = ["en", "sw"]\nmin_count = 2\n'
    )
    recipe = read_recipe(file)
    assert recipe.tables["transfer"].bitext == (str(tmp_path / "a.tsv"), str(tmp_path / "news.{en,sw}"))
    assert recipe.tables["transfer"].alignment == tmp_path / "links.txt"
    assert recipe.tables["transfer"].aligning == WordAlignmentOptions("union", "words", ("en", "sw"), min_count=2.0)
    assert recipe.tables["transfer"].options == {"alphabet": 30}
    (tmp_path / "again.toml").write_text(recipe_text(recipe))
    assert read_recipe(tmp_path / "again.toml") == recipe


def test_an_unknown_symmetrisation_in_a_file_is_rejected_with_its_key(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        'title = "t"\noutput = "out"\nmodel = "gpt2"\ncorpus = "new.txt"\n[transfer]\nmethod = "ramen"\n'
        '[transfer.aligning]\nsymmetrisation = "grow"\n'
    )
    with pytest.raises(InputError, match=r"transfer\.aligning\.symmetrisation"):
        read_recipe(file)


def test_the_fingerprint_of_a_transfer_follows_the_content_of_its_parallel_text(options, tmp_path):
    before = fingerprint(options)
    (tmp_path / "renamed.tsv").write_bytes((tmp_path / "bitext.tsv").read_bytes())
    assert fingerprint(replace(options, bitext=str(tmp_path / "renamed.tsv"))) == before
    assert fingerprint(replace(options, aligning=WordAlignmentOptions("union"))) != before
    (tmp_path / "links.txt").write_text("0-0\n" * 49 + "1-1\n")
    changed = fingerprint(options)
    assert changed != before
    (tmp_path / "bitext.tsv").write_text("a\tb\n" * 50)
    assert fingerprint(options) != changed


def test_the_fingerprint_of_a_transfer_does_not_depend_on_where_it_runs_and_what_it_scores(options, tmp_path):
    elsewhere = replace(options, output=tmp_path / "other", device="cuda", score=True, held_out_bytes=1, overwrite=True)
    assert fingerprint(elsewhere) == fingerprint(options)
    for changes in ({"seed": 1}, {"method": "blend"}, {"vocab_size": 9}, {"options": {"alphabet": 3}}):
        assert fingerprint(replace(options, **changes)) != fingerprint(options)
