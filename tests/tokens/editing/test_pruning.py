"""Pruned tokenizers: the text is encoded as before, with fewer tokens in the vocabulary."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import processors

from relexify.errors import VocabularyError
from relexify.tokens import prune_tokenizer, train_tokenizer_like, vocabulary_of
from tests import pico
from tests.tokens.editing.test_extension import LAYOUTS

USED = pico.sentences(60, words="the old teacher reads near green water".split(), seed=4)  # noqa: SIM905
layouts = pytest.mark.parametrize("layout", list(LAYOUTS))


@layouts
def test_the_text_is_encoded_as_before(layout):
    source = LAYOUTS[layout]()
    pruned, ids = prune_tokenizer(source, lambda: USED)
    assert len(vocabulary_of(pruned)) == len(ids) < len(vocabulary_of(source))
    assert np.array_equal(np.array(vocabulary_of(source).tokens)[ids], vocabulary_of(pruned).tokens)
    for line in USED:
        assert ids[pruned(line).input_ids].tolist() == source(line).input_ids  # special tokens around it too
        assert pruned.decode(pruned(line).input_ids) == source.decode(source(line).input_ids)
    assert pruned.all_special_tokens == source.all_special_tokens
    assert set(pruned.added_tokens_encoder) == set(source.added_tokens_encoder)


@pytest.mark.parametrize("layout", ["byte level", "byte fallback", "llama 3"])
def test_other_text_can_still_be_encoded(layout):
    pruned, _ = prune_tokenizer(LAYOUTS[layout](), lambda: USED)
    text = "überall 日本 quickly"
    assert pruned.decode(pruned(text, add_special_tokens=False).input_ids).strip() == text


@pytest.mark.parametrize("kind", ["RoBERTa", "template"])
def test_a_post_processor_with_tokens_that_the_vocabulary_lacks_is_rejected(kind):
    source = pico.byte_level()
    source.backend_tokenizer.post_processor = {
        "RoBERTa": processors.RobertaProcessing(("</s>", 7), ("<s>", 8)),
        "template": processors.TemplateProcessing(single="</s> $A", special_tokens=[("</s>", 7)]),
    }[kind]
    for change in (
        lambda: prune_tokenizer(source, lambda: USED),
        lambda: train_tokenizer_like(source, lambda: USED, 300),
    ):
        with pytest.raises(VocabularyError, match=r"puts '</?s>' around a text, but its vocabulary .*tokenizer\.json"):
            change()


def test_unused_tokens_are_gone_and_only_parts_of_used_ones_stay():
    source = pico.byte_level()
    pruned, _ = prune_tokenizer(source, lambda: USED)
    used = {token for line in USED for token in source.tokenize(line)}
    left = {token for token in vocabulary_of(pruned).tokens if len(token) > 1 and token not in used}
    assert left == {"<|endoftext|>"} | {token for token in left if any(token in word for word in used)}
    assert "Ġquickly" in vocabulary_of(source).tokens
    assert "Ġquickly" not in vocabulary_of(pruned).tokens
