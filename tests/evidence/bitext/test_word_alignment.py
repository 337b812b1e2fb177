"""Links between tokens: symmetrised, read, counted, and really made by eflomal."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError, MissingExtra
from relexify.evidence.bitext import (
    Bitext,
    DirectedLinks,
    EncodedBitext,
    Links,
    Side,
    align_bitext,
    aligned_counts,
    encode_bitext,
    read_links,
    symmetrise,
)
from relexify.evidence.bitext import eflomal as eflomal_alignment
from tests import pico


def links(*points, line=0):
    return Links.from_points(np.array([(line, source, target) for source, target in points]).reshape(-1, 3))


def side(*lines, words=None):
    """Lines of tokens; with `words`, the number of tokens of each word of each line."""
    ids = [id for line in lines for id in line]
    sizes = [size for line in words for size in line] if words else [1] * len(ids)
    units = [len(line) for line in (words or lines)]
    return Side(np.array(ids, np.int32), np.cumsum([0, *sizes]), np.cumsum([0, *units]))


FORWARD = links((0, 0), (0, 1), (3, 3), (0, 5))
REVERSE = links((0, 0), (1, 1), (2, 0))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("intersection", {(0, 0)}),
        ("union", {(0, 0), (0, 1), (0, 5), (1, 1), (2, 0), (3, 3)}),
        ("forward", {(0, 0), (0, 1), (0, 5), (3, 3)}),
        # 0-1 touches 0-0 and brings target 1; 1-1 brings source 1; 2-0 touches 1-1 across a corner and brings source 2;
        # 3-3 touches nothing, but both its ends are free; 0-5 touches nothing, and source 0 is taken.
        ("grow-diag-final-and", {(0, 0), (0, 1), (1, 1), (2, 0), (3, 3)}),
    ],
)
def test_symmetrisation_equals_the_count_by_hand(how, expected):
    found = symmetrise(FORWARD, REVERSE, how)
    assert set(zip(found.source.tolist(), found.target.tolist(), strict=True)) == expected
    assert len(found) == len(expected)


def test_growing_adds_no_link_between_two_units_that_both_have_one():
    square = symmetrise(links((0, 0), (1, 1), (0, 1)), links((0, 0), (1, 1), (1, 0)), "grow-diag-final-and")
    assert square.points().tolist() == [[0, 0, 0], [0, 1, 1]]


def test_of_two_links_of_one_unit_the_first_direction_has_precedence():
    found = symmetrise(links((0, 1)), links((0, 0)), "grow-diag-final-and")
    assert found.points().tolist() == [[0, 0, 1]]
    assert symmetrise(links((0, 0)), links((1, 0)), "grow-diag-final-and").points().tolist() == [[0, 0, 0]]


def test_lines_are_symmetrised_each_for_itself():
    first = Links.from_points(np.array([(0, 0, 0), (2, 0, 0), (2, 1, 1)]))
    second = Links.from_points(np.array([(1, 0, 0), (2, 0, 0), (2, 1, 2)]))
    grown = symmetrise(first, second, "grow-diag-final-and")
    assert grown.points().tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 1], [2, 1, 2]]


def test_symmetrisations_are_nested_and_direction_free_on_random_links():
    draw = np.random.default_rng(0)
    for _ in range(30):
        points = [Links.from_points(draw.integers(0, 6, (12, 3))) for _ in range(2)]
        found = {
            how: {tuple(point) for point in symmetrise(*points, how).points().tolist()}
            for how in ("intersection", "grow-diag-final-and", "union")
        }
        assert found["intersection"] <= found["grow-diag-final-and"] <= found["union"]
        for how in ("intersection", "union"):
            assert {tuple(point) for point in symmetrise(*points[::-1], how).points().tolist()} == found[how]


def test_an_unknown_symmetrisation_is_rejected():
    with pytest.raises(InputError, match="grow-diag-final-and, intersection, union, forward"):
        symmetrise(FORWARD, REVERSE, "both")


def test_no_links_at_all_stay_no_links():
    assert len(symmetrise(links(), links(), "grow-diag-final-and")) == 0


# Counts.

PAIRS = EncodedBitext(side([1, 2], [], [2, 3]), side([4, 5], [], [5]))


def test_aligned_tokens_are_counted_over_all_lines():
    made = Links.from_points(np.array([(0, 0, 0), (0, 1, 1), (2, 0, 0), (2, 1, 0)]))
    counts = aligned_counts(PAIRS, made, (6, 4)).toarray()
    expected = np.zeros((6, 4))
    expected[4, 1], expected[5, 2], expected[5, 3] = 1, 2, 1
    assert np.array_equal(counts, expected)


def test_a_link_of_words_is_shared_among_the_tokens_of_the_source_word():
    pairs = EncodedBitext(side([1, 2, 3], words=[[1, 2]]), side([4, 5, 5], words=[[2, 1]]))
    counts = aligned_counts(pairs, links((1, 0), (0, 1)), (6, 4)).toarray()
    expected = np.zeros((6, 4))
    expected[4, [2, 3]] = expected[5, [2, 3]] = 0.5
    expected[5, 1] = 1
    assert np.array_equal(counts, expected)


def test_counts_do_not_depend_on_how_many_links_are_taken_at_once(monkeypatch):
    draw = np.random.default_rng(1)
    pairs = EncodedBitext(side(*draw.integers(0, 9, (20, 8))), side(*draw.integers(0, 9, (20, 8))))
    many = Links.from_points(np.stack([draw.integers(0, 20, 90), draw.integers(0, 8, 90), draw.integers(0, 8, 90)], 1))
    whole = aligned_counts(pairs, many, (9, 9))
    monkeypatch.setattr("relexify.evidence.bitext.aligned_tokens._LINKS_AT_ONCE", 7)
    assert np.array_equal(aligned_counts(pairs, many, (9, 9)).toarray(), whole.toarray())
    assert whole.sum() == len(many)


# Alignments that others made.


@pytest.fixture
def pharaoh(tmp_path):
    def write(text):
        (tmp_path / "links.txt").write_text(text)
        return tmp_path / "links.txt"

    return write


def test_a_ready_alignment_is_read_line_by_line(pharaoh):
    found = read_links(pharaoh("1-1 0-0\n\n0-0 1-0\n"), PAIRS)
    assert found.points().tolist() == [[0, 0, 0], [0, 1, 1], [2, 0, 0], [2, 1, 0]]


def test_a_swapped_alignment_is_turned_round(pharaoh):
    found = read_links(pharaoh("1-1\n\n0-1\n"), PAIRS, swapped=True)
    assert found.points().tolist() == [[0, 1, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n\n", "has 2 lines, but the parallel text has 3"),
        ("0-0\n\n0-0\n0-0\n", "has 4 lines, but the parallel text has 3"),
        ("0-0\n\n0-1\n", "line 3: the link 0-1 points outside sentences of 2 and 1 units"),
        ("2-0\n\n\n", "line 1: the link 2-0 points outside"),
        ("0-0\n0-0\n\n", "line 2: the link 0-0 points outside sentences of 0 and 0 units"),
        ("0-0 1p1\n\n\n", "line 1: '1p1' is not a link"),
        ("0-01-1\n\n\n", "line 1: '0-01-1' is not a link"),
        ("99999999999-0\n\n\n", "line 1: '99999999999-0' is not a link"),
        ("0-0\n\n0 1\n", "line 3: '0' is not a link"),
    ],
)
def test_a_word_alignment_that_does_not_fit_is_rejected_with_its_line(pharaoh, text, message):
    with pytest.raises(InputError, match=message):
        read_links(pharaoh(text), PAIRS)


def test_saved_links_are_loaded_unchanged(tmp_path):
    DirectedLinks(FORWARD, REVERSE).save(tmp_path / "links.safetensors")
    again = DirectedLinks.load(tmp_path / "links.safetensors")
    assert np.array_equal(again.forward.points(), FORWARD.points())
    assert np.array_equal(again.reverse.points(), REVERSE.points())


# eflomal.


def test_a_missing_aligner_is_reported_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)
    with pytest.raises(MissingExtra, match=r"relexify\[alignment\]"):
        align_bitext(PAIRS)


def test_eflomal_finds_the_words_of_an_invented_language_in_any_order(tmp_path):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    english, foreign = sorted(set(pico._ENGLISH)), pico.foreign_words()
    words = dict(zip(english, foreign, strict=False))
    draw = np.random.default_rng(0)
    sentences = [draw.choice(english, 6).tolist() for _ in range(600)]
    lines = [f"{' '.join(words_)}\t{' '.join(words[word] for word in reversed(words_))}" for words_ in sentences]
    (tmp_path / "a.tsv").write_text("\n".join([*lines[:300], "", *lines[300:]]))
    texts = [[line.split("\t")[index] for line in lines] for index in (0, 1)]
    source_tokenizer, target_tokenizer = pico.wordpiece(texts[0], 300), pico.wordpiece(texts[1], 300)
    pairs = encode_bitext(Bitext.open(tmp_path / "a.tsv"), source_tokenizer, target_tokenizer)
    directed = align_bitext(pairs)
    assert 300 not in directed.forward.line, "a line without a pair has no links"
    assert directed.forward.line.max() == 600, "and those after it keep their numbers"
    found = symmetrise(directed.forward, directed.reverse, "intersection")
    counts = aligned_counts(pairs, found, (len(target_tokenizer), len(source_tokenizer))).toarray()
    right = 0
    for word in english:
        (source, *more), (target, *others) = (
            source_tokenizer(word, add_special_tokens=False).input_ids,
            target_tokenizer(words[word], add_special_tokens=False).input_ids,
        )
        right += not more and not others and counts[target].argmax() == source
    assert right > 0.8 * len(english)


def test_sentences_too_long_for_eflomal_are_left_out_with_a_warning(monkeypatch, caplog):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    monkeypatch.setattr(eflomal_alignment, "LONGEST", 3)
    pairs = EncodedBitext(side([1, 2], [1, 2, 3, 4], [2]), side([5, 6], [5], [6]))
    with caplog.at_level(logging.WARNING):
        directed = align_bitext(pairs)
    assert set(directed.forward.line.tolist()) <= {0, 2}
    assert "1 pair is not aligned, because one side has more than 3 tokens" in caplog.text


def test_text_with_nothing_to_align_is_rejected():
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    with pytest.raises(EvidenceError, match="none of the 2 lines"):
        align_bitext(EncodedBitext(side([], [1]), side([2], [])))


def test_an_aligner_that_fails_is_reported_in_a_sentence(monkeypatch):
    eflomal = pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    monkeypatch.setattr(eflomal, "align", lambda *arguments, **options: 1)
    with pytest.raises(EvidenceError, match="eflomal ended without links for all 2 pairs"):
        align_bitext(PAIRS)
