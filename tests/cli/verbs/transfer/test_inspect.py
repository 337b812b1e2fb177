"""How `relexify inspect` writes source tokens in one line."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from relexify.cli.verbs.transfer.inspect import _join_sources, _quote
from relexify.mixture import Origin, mixture_of_weights
from relexify.tokens import TokenForm, vocabulary_of
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
