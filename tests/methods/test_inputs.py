"""Inputs of methods: vectors of either language, counts of aligned tokens, and what is computed once."""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.bitext import Bitext, WordAlignmentOptions
from relexify.evidence.bitext.aligned_tokens import count_aligned_tokens, is_aligned
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining, WordVectors, subwords_from_words
from relexify.methods.inputs import Inputs
from relexify.methods.parts import token_space
from relexify.methods.parts import vectors as vectors_module
from relexify.methods.parts.copying import special
from relexify.methods.parts.token_space import WordComposition
from relexify.methods.parts.vector_alignment import align_vectors
from relexify.methods.parts.vectors import embedding_vectors, identical_words, trained_vectors
from relexify.methods.registry import METHODS
from relexify.methods.wechsel import vector_neighbours
from relexify.mixture import PrecomputedRows, first_of
from relexify.storage.fingerprint import fingerprint
from relexify.text import Corpus
from relexify.tokens import vocabulary_of
from tests import pico

TINY = VectorTraining(width=8, epochs=1, minimum_count=1)
SOURCE, TARGET = pico.byte_level(), pico.byte_level(pico.sentences(words=pico.foreign_words()))


pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def inputs():
    evidence = Evidence(
        corpus=Corpus.from_lines([*pico.sentences(words=pico.foreign_words()), *pico.sentences(20)]),
        held_out=Corpus.from_lines([]),
        source_corpus=Corpus.from_lines(pico.sentences()),
    )
    rows = np.random.default_rng(0).normal(size=(len(SOURCE), 16)).astype(np.float32)
    return Inputs(SOURCE, TARGET, evidence, read_embedding=lambda: rows, vectors=TINY)


@pytest.fixture
def bitext(tmp_path):
    english, foreign = pico.sentences(50, seed=1), pico.sentences(50, seed=1, words=pico.foreign_words())
    (tmp_path / "bitext.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(english, foreign, strict=True)))
    return Bitext.open(tmp_path / "bitext.tsv")


def test_given_rows_of_an_extended_vocabulary_are_those_of_added_tokens_in_both_embeddings(inputs):
    ids, rows = np.array([0, len(SOURCE), len(SOURCE) + 1]), np.arange(6, dtype=np.float32).reshape(3, 2)
    given = PrecomputedRows(ids, rows, rows + 10)
    assert inputs.keep_added(given) is given
    added = replace(inputs, keep_source=True).keep_added(given)
    assert added.ids.tolist() == [len(SOURCE), len(SOURCE) + 1]
    assert added.vectors.tolist() == [[2, 3], [4, 5]]
    assert added.output.tolist() == [[12, 13], [14, 15]]


def test_held_out_text_may_be_empty_but_not_unreadable_when_it_is_compared_with_parallel_text(inputs, bitext, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(b"text\n\0\xff\xfe\xfd" * 500)
    for name in ("held_out", "source_held_out"):
        evidence = replace(inputs.evidence, bitext=bitext, **{name: Corpus.open(tmp_path / "empty.txt")})
        assert not len(replace(inputs, evidence=evidence).scored_pairs)
        evidence = replace(evidence, **{name: Corpus.open(tmp_path / "binary.txt")})
        with pytest.raises(InputError, match=r"binary\.txt"):
            _ = replace(inputs, evidence=evidence).scored_pairs


def test_vectors_are_trained_once_for_the_same_text(cache, monkeypatch):
    first = trained_vectors(Corpus.from_lines(pico.sentences()), TINY)
    monkeypatch.setattr(vectors_module, "train_vectors", None)
    again = trained_vectors(Corpus.from_lines(pico.sentences()), TINY)
    assert np.array_equal(first.matrix, again.matrix)


def test_a_failure_while_vectors_are_trained_reaches_the_caller():
    def broken():
        yield from pico.sentences(20)
        raise InputError("the text ends in the middle")

    with pytest.raises(InputError, match="in the middle"):
        trained_vectors(Corpus.from_lines(broken), TINY)


def test_vectors_from_files_and_from_text_are_those_of_their_own_language(inputs, tmp_path):
    source, target, _ = inputs.word_vectors()
    assert "river" in source.words
    target.save(tmp_path / "target.safetensors")
    evidence = replace(inputs.evidence, target_vectors=tmp_path / "target.safetensors")
    again, loaded, tokens_in_space = replace(inputs, evidence=evidence).word_vectors()
    assert list(loaded.words) == list(target.words)
    assert list(again.words) == list(source.words)
    assert tokens_in_space is None


def test_words_of_an_uncased_embedding_are_written_alike_whatever_their_case():
    tokenizer = pico.wordpiece(["river house berlin zürich"] * 50)
    vocabulary = vocabulary_of(tokenizer)
    rows = np.random.default_rng(0).normal(size=(len(vocabulary), 16)).astype(np.float32)
    target = WordVectors(["Berlin", "Zürich", "Fluss"], np.eye(3, dtype=np.float32))
    source, _ = embedding_vectors(tokenizer, rows, [], target_words=target.words)
    assert [word for word, _ in identical_words(source, target).pairs] == ["Berlin", "Zürich"]
    upper, lower = source.lookup(["Zürich", "zurich"])
    assert np.array_equal(upper, lower)


def test_without_vectors_or_text_the_embedding_replaces_them(inputs):
    assert not inputs.reads_own_embedding
    alone = replace(inputs, evidence=replace(inputs.evidence, source_corpus=None))
    assert alone.reads_own_embedding
    source, _, tokens_in_space = alone.word_vectors()
    assert source.width == 16
    assert tokens_in_space is not None


def test_copies_with_other_neighbours_share_the_vectors_and_the_search(inputs, monkeypatch):
    space = inputs.token_space()
    expected = vector_neighbours(space.source, space.target, neighbours=2, temperature=0.5)
    most = METHODS["wechsel"].initialise(inputs.at(5, 1.0))
    monkeypatch.setattr(token_space, "search_neighbours", None)
    fewer = METHODS["wechsel"].initialise(inputs.at(2, 0.5))
    assert fewer.rotation is most.rotation is space.rotation
    copied = special(SOURCE, TARGET)
    assert (fewer.mixture.weights != first_of(copied, expected).weights).nnz == 0
    assert replace(inputs, seed=1)._spaces == {}


def test_all_identical_words_align_the_vectors_of_ramen_and_only_long_ones_others(inputs):
    plain = inputs.token_space(with_dictionary=False).rotation
    long = replace(inputs, aligned_by="identical").token_space().rotation
    shared = [word for word in inputs.word_vectors()[0].words if word in inputs.word_vectors()[1].index]
    words = [word for word in shared if any(map(str.isalnum, word))]
    assert plain.pairs_used == len(words) > long.pairs_used
    assert long.pairs_used == sum(len(word) >= 4 or word.isdigit() for word in words)


def test_a_dictionary_that_is_spelled_like_the_text_aligns_vectors_in_another_unicode_form():
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    words, composed = [f"word{n}" for n in range(40)], [f"nước{n}" for n in range(40)]
    apart = [unicodedata.normalize("NFD", word) for word in composed]
    lexicon = BilingualLexicon(tuple(zip(words, apart, strict=True)))
    for spelling in (composed, apart):
        assert align_vectors(WordVectors(words, rows), WordVectors(spelling, rows), lexicon).coverage == 1


def test_a_random_rotation_replaces_the_alignment_as_a_control(inputs):
    aligned, control = inputs.token_space(), replace(inputs, aligned_by="random").token_space()
    assert control.rotation.pairs_used == 0
    assert np.array_equal(control.target.matrix, aligned.target.matrix)
    assert not np.allclose(control.source.matrix, aligned.source.matrix)
    assert np.allclose(
        np.linalg.norm(control.source.matrix, axis=1), np.linalg.norm(aligned.source.matrix, axis=1), atol=1e-5
    )


def test_ramen_composes_tokens_of_the_50000_most_frequent_words(inputs, tmp_path):
    words = [*map(str, range(49_999)), "river", "house"]
    counts = np.arange(60_000, 60_000 - len(words), -1)
    rows = np.random.default_rng(0).normal(size=(len(words), 4)).astype(np.float32)
    WordVectors(words, rows, counts).save(tmp_path / "words.safetensors")
    file = tmp_path / "words.safetensors"
    given = replace(inputs, target=SOURCE, evidence=replace(inputs.evidence, source_vectors=file, target_vectors=file))
    mixture = METHODS["ramen-vectors"].initialise(given).mixture
    (last,), (first_left_out,) = (SOURCE(f" {word}", add_special_tokens=False).input_ids for word in words[-2:])
    assert (mixture.known[last], mixture.known[first_left_out]) == (True, False)


def test_tokens_are_composed_of_the_words_and_frequencies_that_are_given(inputs, tmp_path):
    (tmp_path / "counts.tsv").write_text("river\t3\nhouse\t2\nteacher\t1\n")
    words = WordComposition(top_words=2, source_frequencies=tmp_path / "counts.tsv")
    space = replace(inputs, options=words).token_space("words", words=words)
    source, target = space.rotation.apply(*inputs.word_vectors()[:2])
    counts = {"river": 3.0, "house": 2.0, "teacher": 1.0}
    expected = subwords_from_words(SOURCE, source, frequencies=counts, top_words=2)
    assert np.array_equal(space.source.matrix, expected.matrix)
    assert np.array_equal(space.target.matrix, subwords_from_words(TARGET, target, top_words=2).matrix)
    built = METHODS["wechsel-tfr"].initialise(replace(inputs, options=words)).mixture
    found = first_of(special(SOURCE, TARGET), vector_neighbours(space.source, space.target))
    assert (built.weights != found.weights).nnz == 0
    (tmp_path / "other.tsv").write_text("river\t3\n")
    others = (replace(words, top_words=3), replace(words, source_frequencies=tmp_path / "other.tsv"))
    assert len({fingerprint(each) for each in (words, *others)}) == 3
    with pytest.raises(InputError, match="`top_words=0"):
        WordComposition(top_words=0)


def test_self_learning_starts_with_the_dictionary_and_goes_on(inputs):
    words = [word for word in pico.foreign_words() if len(word) > 3][:4]
    lexicon = BilingualLexicon(tuple(zip(("river", "house", "teacher", "student"), words, strict=True)))
    given = replace(inputs, evidence=replace(inputs.evidence, lexicon=lexicon))
    plain, learned = (
        replace(given, aligned_by=aligned_by).token_space().rotation for aligned_by in ("dictionary", "self-learning")
    )
    assert plain.pairs_used == learned.pairs_used > 0
    assert not np.allclose(plain.matrix, learned.matrix, atol=1e-3)


@pytest.mark.parametrize("aligned_by", ["adversarial", "unsupervised"])
def test_word_vectors_are_aligned_by_adversarial_training_alone_if_requested(inputs, aligned_by, caplog):
    short = AdversarialTraining(restarts=1, epochs=1, steps=5, hidden=8)
    with caplog.at_level("INFO", "relexify"), pytest.raises(EvidenceError, match="in 1 games"):
        replace(inputs, aligned_by=aligned_by, adversarial=short).token_space()
    assert "game 1:" in caplog.text
    assert ("principal axes:" in caplog.text) == (aligned_by == "unsupervised")


def test_links_of_words_and_links_of_tokens_are_counted_as_such(bitext, tmp_path):
    links: Path = tmp_path / "links.txt"
    links.write_text("0-0\n" * 50)
    tokens = count_aligned_tokens(bitext, SOURCE, TARGET, links=links)
    words = count_aligned_tokens(bitext, SOURCE, TARGET, links=links, options=WordAlignmentOptions(units="words"))
    assert tokens.shape == words.shape == (len(TARGET), len(SOURCE))
    assert tokens.sum() == 50, "one token of the first word each"
    first_words = [line.split()[0] for line in pico.sentences(50, seed=1, words=pico.foreign_words())]
    assert words.sum() == pytest.approx(sum(len(ids) for ids in TARGET(first_words).input_ids))


def test_the_aligner_is_not_needed_for_a_text_that_was_aligned_before(bitext, tmp_path, monkeypatch):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    assert not is_aligned(bitext)
    found = count_aligned_tokens(bitext, SOURCE, TARGET)
    monkeypatch.setitem(sys.modules, "eflomal", None)
    assert is_aligned(bitext)
    assert (count_aligned_tokens(bitext, SOURCE, TARGET) != found).nnz == 0
    (tmp_path / "bitext.tsv").write_text("one\teins\n")
    assert not is_aligned(Bitext.open(tmp_path / "bitext.tsv"))


def test_counts_without_parallel_text_are_an_error(inputs):
    with pytest.raises(InputError, match="no parallel text"):
        _ = inputs.aligned_token_counts
