"""How often tokens occur, and which rows stand for a model's space."""

from __future__ import annotations

import numpy as np

from relexify.systems.trelm.method import anchor_ids, token_counts
from relexify.tokens import vocabulary_of
from tests import pico


def test_rows_come_by_frequency_and_not_by_id_and_special_tokens_stay_out():
    text = "\n".join(pico.sentences(40))
    tokenizer = pico.wordpiece(text.split("\n"), size=300)
    counts = token_counts(tokenizer, text)
    by_hand = np.zeros(len(tokenizer), int)
    for line in text.split("\n"):
        for id in tokenizer(line, add_special_tokens=False).input_ids:
            by_hand[id] += 1
    assert counts.tolist() == by_hand.tolist()
    vocabulary = vocabulary_of(tokenizer)
    ids = anchor_ids(vocabulary, counts)
    assert (np.diff(counts[ids]) <= 0).all()
    assert sorted(ids) == [id for id, form in enumerate(vocabulary.forms) if not form.is_special]
