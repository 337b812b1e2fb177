"""How `relexify inspect` writes source tokens in one line."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from relexify.cli.verbs.transfer.inspect import _join_sources, _print_frequent_words, _quote
from relexify.mixture import Mixture, Origin, mixture_of_weights
from relexify.systems.transfer.word_origins import evidence_kinds, words_by_origin
from relexify.tokens import Spelling, TokenForm, TokenizerFamily, vocabulary_of
from tests import pico


def test_bytes_have_one_backslash_and_quotation_marks_are_those_of_python():
    assert _quote(TokenForm("\udce0\udca4")) == r"'\xe0\xa4'"
    assert _quote(TokenForm("it's", starts_word=True)) == '" it\'s"'


def test_of_equal_weights_words_come_first_and_the_others_are_those_that_are_not_shown():
    source = vocabulary_of(pico.byte_level())
    pieces = [id for id, form in enumerate(source.forms) if not form.starts_word and not form.is_special][:2]
    word = next(id for id, form in enumerate(source.forms) if form.starts_word)
    row = np.zeros((len(source), len(source)))
    row[0, pieces], row[0, word] = (0.302, 0.396), 0.302
    mixture = mixture_of_weights(csr_array(row), source, source, method="x", origin=Origin.MIXED)
    line = _join_sources(mixture, mixture.sources(0), 2)
    assert line.split(", ")[1].startswith(_quote(source.forms[word]))
    assert line.endswith("1 other 0.30")


def blend_of(*rows: dict[str, float]) -> tuple[Mixture, list[int]]:
    """A blend of words, each with the weights of its source tokens; the first one has an ordinary translation."""
    words = ["▁shule", "▁ich", "▁Euro", "▁program", "▁ndogo", "▁mama", "▁sch"]
    sources = [
        "▁school",
        "sh",
        "ule",
        "▁I",
        "ich",
        "▁Euro",
        "▁euro",
        "▁pro",
        "gram",
        "▁n",
        "do",
        "go",
        "ma",
        "▁sch",
        "▁S",
    ]
    weights = np.array([[row.get(name, 0.0) for name in sources] for row in rows], np.float32)
    spelling = Spelling(TokenizerFamily.METASPACE, byte_fallback=True)
    origins = np.full(len(rows), Origin.MIXED, np.uint8)
    shown = words[: len(rows)]
    return Mixture(csr_array(weights), origins, "blend", sources, shown, spelling, spelling), list(range(len(rows)))


ROWS = (
    {"▁school": 0.75, "sh": 0.125, "ule": 0.125},
    {"▁I": 0.75, "ich": 0.25},  # a translation that the word begins with, but for its case
    {"▁Euro": 0.625, "▁euro": 0.375},  # two translations, one of which is the word
    {"▁pro": 0.875, "gram": 0.125},  # a translation that is one of the pieces
    {"▁n": 1 / 3, "do": 1 / 3, "go": 1 / 3},  # nothing but its pieces
    {"ma": 1.0},
    {"▁sch": 0.75, "▁S": 0.05, "▁school": 0.2},  # guessed
)


def test_a_translation_that_is_spelled_like_a_part_of_the_word_is_called_a_translation(capsys):
    mixture, ids = blend_of(*ROWS)
    both, spelling, translation = "translation and spelling", "spelling", "translation"
    assert evidence_kinds(mixture, ids, 5) == [
        [translation, spelling, spelling],
        [translation, spelling],
        [both, translation],
        [both, spelling],
        [spelling] * 3,
        [spelling],
        [spelling, "similar word", spelling],
    ]
    groups = words_by_origin(mixture)
    assert groups == {
        "Translated by the dictionary or parallel text": ids[:4],
        "Partly guessed from similar words": ids[6:],
        "From their own spelling": ids[4:6],
    }
    _print_frequent_words(mixture, 5)
    shown = " ".join(capsys.readouterr().out.split())
    assert "' Euro' ' euro' 0.38 ' Euro' 0.62 (also a translation)" in shown
    assert "' ich' ' I' 0.75 'ich' 0.25" in shown


def test_a_group_of_one_word_is_called_so(capsys):
    mixture, _ = blend_of(ROWS[0])
    _print_frequent_words(mixture, 5)
    assert capsys.readouterr().out.startswith("Translated by the dictionary or parallel text: 1 word\n")
