"""Evidence is opened and validated once, and known by its content."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.evidence.evidence import Evidence, open_evidence
from relexify.storage.fingerprint import fingerprint
from relexify.text import Corpus
from tests import pico


def test_training_and_held_out_text_share_no_line(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(400)))
    evidence = open_evidence(tmp_path / "text.txt")
    assert set(evidence.corpus).isdisjoint(evidence.held_out)
    assert sorted([*evidence.corpus, *evidence.held_out]) == sorted(pico.sentences(400))


def test_given_held_out_text_leaves_the_corpus_whole(tmp_path):
    evidence = open_evidence(Corpus.from_lines(["one", "two"]), held_out=Corpus.from_lines(["three"]))
    assert (list(evidence.corpus), list(evidence.held_out)) == (["one", "two"], ["three"])


def test_held_out_paragraphs_are_left_out_of_the_corpus(tmp_path):
    corpus, held_out = tmp_path / "corpus.txt", tmp_path / "held.txt"
    corpus.write_text("Die Tür.\nSie liest.\n  Er ging. \n")
    held_out.write_text("Er ging.\nDie Tu\u0308r.\n")  # the umlaut as two characters
    evidence = open_evidence(corpus, held_out=held_out)
    assert list(evidence.corpus) == ["Sie liest."]
    assert fingerprint(evidence.corpus) != fingerprint(Corpus.open(corpus))
    assert list(open_evidence(corpus, held_out=held_out, scored=False).corpus) == ["Sie liest."]
    with pytest.raises(InputError, match=r"all text of .*held.txt is also in .*corpus.txt: give"):
        list(open_evidence(held_out, held_out=corpus).corpus)


def test_text_that_was_left_out_before_stays_left_out():
    corpus = Corpus.from_lines(["one", "two", "three"]).without(Corpus.from_lines(["one"]))
    assert list(open_evidence(corpus, held_out=Corpus.from_lines(["two"])).corpus) == ["three"]


def test_the_other_side_of_a_split_is_not_read_again():
    training, held_out = Corpus.from_lines([f"line {number}" for number in range(500)]).split()
    evidence = open_evidence(training.subsample(1_000), held_out=held_out)
    assert evidence.corpus == training.subsample(1_000)


def test_held_out_text_of_the_source_language_is_left_out_of_it():
    source, held_out = Corpus.from_lines(["one", "two"]), Corpus.from_lines(["two"])
    target = Corpus.from_lines(["x"])
    evidence = open_evidence(target, held_out=held_out, source_corpus=source, source_held_out=held_out)
    assert list(evidence.source_corpus) == ["one"]


def test_a_corpus_that_is_held_out_completely_is_rejected(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a line\n" * 3)
    two.write_text("another line\n" * 3)
    with pytest.raises(InputError, match=r"one.txt is both the corpus and the held-out text"):
        open_evidence(one, held_out=[one, two])
    open_evidence([one, two], held_out=two)


def test_a_corpus_is_known_to_be_held_out_however_its_path_is_spelled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(100)))
    (tmp_path / "link.txt").symlink_to("text.txt")
    for held_out in (tmp_path / "text.txt", "./text.txt", "link.txt", [tmp_path / "link.txt"]):
        with pytest.raises(InputError, match=r"text.txt is both the corpus and the held-out text"):
            open_evidence("text.txt", held_out=held_out)


def test_two_parts_of_one_file_are_a_corpus_and_its_held_out_text(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(100)))
    text = Corpus.open(tmp_path / "text.txt")
    corpus, held_out = text.split(4)
    evidence = open_evidence(corpus, held_out=held_out)
    assert sorted([*evidence.corpus, *evidence.held_out]) == sorted(text)
    for same in (corpus, text):
        with pytest.raises(InputError, match="both the corpus and the held-out text"):
            open_evidence(corpus, held_out=same)
    open_evidence(text, held_out=held_out)  # most of it is not held out


def test_held_out_text_is_required_only_for_scores():
    short = Corpus.from_lines(["one line"])
    with pytest.raises(InputError, match=r"\(`held_out`\), or do not score \(`score=false`\)"):
        open_evidence(short)
    assert list(open_evidence(short, scored=False).corpus) == ["one line"]


def test_a_dictionary_is_read_in_its_order(tmp_path):
    (tmp_path / "dictionary.tsv").write_text("haus\thouse\n")
    text = Corpus.from_lines(["one line"])
    evidence = open_evidence(text, dictionary=tmp_path / "dictionary.tsv", dictionary_swapped=True, scored=False)
    assert evidence.lexicon is not None
    assert evidence.lexicon.pairs == (("house", "haus"),)
    assert open_evidence(text, dictionary=evidence.lexicon, scored=False).lexicon == evidence.lexicon


def test_the_fingerprint_follows_contents_and_not_names(tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("haus\thouse\n")
    text = Corpus.from_lines(["one line"])
    first, second = (open_evidence(text, dictionary=tmp_path / name, scored=False) for name in ("a.tsv", "b.tsv"))
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(open_evidence(text, scored=False)) != fingerprint(first)
    (tmp_path / "a.tsv").write_text("haus\tbuilding\n")
    assert fingerprint(open_evidence(text, dictionary=tmp_path / "a.tsv", scored=False)) != fingerprint(first)


def test_a_dictionary_is_spelled_like_the_text(tmp_path):
    (tmp_path / "dictionary.tsv").write_text("wax\tsáp\n", encoding="utf-8")
    apart = "sa\u0301p"
    text = Corpus.from_lines([f"{apart} {apart}", "ma\u0301y"])
    evidence = open_evidence(text, held_out=Corpus.from_lines(["ba"]), dictionary=tmp_path / "dictionary.tsv")
    assert evidence.lexicon.target_words == (apart,)


def test_evidence_is_named_by_the_options_that_give_it():
    given = {entry.name: Path(entry.name) for entry in fields(Evidence)}
    named = Evidence(**given).by_option
    settings = {"dictionary_swapped", "aligning", "scored", "source_scored"}
    assert list(named) == [name for name in signature(open_evidence).parameters if name not in settings]
    assert named["dictionary"] == Path("lexicon")
    text = Corpus.from_lines(["one", "two"])
    assert Evidence(text, text).by_option == {"corpus": text, "held_out": text}
