"""Counts of tokens, and the order of the rows that represent a model's space."""

from __future__ import annotations

import numpy as np

from relexify.systems.trelm.joint_vocabulary import sort_by_frequency, token_counts
from relexify.tokens import vocabulary_of
from tests import pico


def test_tokens_are_sorted_by_frequency_and_not_by_id_without_special_ones():
    text = "\n".join(pico.sentences(40))
    tokenizer = pico.wordpiece(text.split("\n"), size=300)
    counts = token_counts(tokenizer, text)
    by_hand = np.zeros(len(tokenizer), int)
    for line in text.split("\n"):
        for id in tokenizer(line, add_special_tokens=False).input_ids:
            by_hand[id] += 1
    assert counts.tolist() == by_hand.tolist()
    vocabulary = vocabulary_of(tokenizer)
    ids = sort_by_frequency(vocabulary, counts)
    assert (np.diff(counts[ids]) <= 0).all()
    assert sorted(ids) == [id for id, form in enumerate(vocabulary.forms) if not form.is_special]
