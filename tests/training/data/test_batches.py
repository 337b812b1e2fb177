"""Which block comes when: everything follows from the position and the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, SequentialSampler

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.text import Corpus
from relexify.training.data.batches import Blocks, Masks, Sequences, TwoTexts
from relexify.training.data.packing import PackedText
from tests import pico
from tests.training.runs import packed_in

LENGTH = 16
WITHOUT_START = pico.byte_level()
"""Puts no special token before a text."""


def stream(tokens: Any) -> PackedText:
    return PackedText(np.asarray(tokens), separator=0, paragraphs=1, bytes=len(tokens), left_out=0, name="stream")


def counting(count: int, *, length: int = LENGTH, seed: int = 0) -> Blocks:
    """Blocks for a decoder of a text whose tokens are their own places, with one token to spare."""
    return Blocks(stream(np.arange(count * length + 1)), WITHOUT_START, "decoder", length=length, seed=seed)


def numbers(blocks: Blocks, positions: range) -> list[int]:
    """Which blocks of `counting` come at some positions."""
    return [int(first) // blocks.body for first in blocks.batch(list(positions))["input_ids"][:, 0]]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return pico.wordpiece()


@pytest.fixture(scope="module")
def packed(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> PackedText:
    return packed_in(tmp_path_factory.mktemp("packed"), Corpus.from_lines(pico.sentences(600)), tokenizer)


def masked(packed: PackedText, tokenizer: Any, **options: Any) -> Blocks:
    return Blocks(packed, tokenizer, "encoder", **{"length": LENGTH, **options})


def unmasked(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The rows as they were; tokens without a label are unchanged."""
    return torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 40), length=st.integers(1, 20), spare=st.integers(0, 19), seed=st.integers(0, 2**40))
def test_every_block_comes_exactly_once_an_epoch(count, length, spare, seed):
    tokens = np.arange(count * length + 1 + spare % length)
    blocks = Blocks(stream(tokens), WITHOUT_START, "decoder", length=length, seed=seed)
    assert blocks.count == count
    for epoch in range(3):
        assert sorted(numbers(blocks, range(epoch * count, (epoch + 1) * count))) == list(range(count))


def test_another_epoch_and_another_seed_have_another_order():
    blocks = counting(50)
    first, second = numbers(blocks, range(50)), numbers(blocks, range(50, 100))
    assert len({tuple(order) for order in (first, second, range(50), numbers(counting(50, seed=1), range(50)))}) == 4


def test_the_order_does_not_depend_on_earlier_requests():
    blocks = counting(7)
    straight = numbers(blocks, range(70))
    backwards = [numbers(counting(7), range(index, index + 1))[0] for index in reversed(range(70))]
    assert backwards[::-1] == straight


def test_labels_are_the_next_tokens_with_the_one_after_the_block():
    blocks = counting(9)
    batch = blocks.batch(list(range(18)))
    assert batch["input_ids"].shape == batch["labels"].shape == (18, LENGTH)
    assert torch.equal(batch["labels"], batch["input_ids"] + 1)
    assert batch["labels"].max() == 9 * LENGTH, "the last token of the text is never predicted"


def test_a_decoder_whose_tokenizer_begins_texts_with_a_token_has_it_in_every_sequence():
    tokenizer = pico.llama3_layout()
    batch = Blocks(stream(np.arange(5 * LENGTH + 1)), tokenizer, "decoder", length=LENGTH).batch([0, 1, 2])
    plain = Blocks(stream(np.arange(5 * LENGTH + 1)), WITHOUT_START, "decoder", length=LENGTH).batch([0, 1, 2])
    assert (batch["input_ids"][:, 0] == tokenizer.bos_token_id).all()
    assert torch.equal(batch["input_ids"][:, 1:], plain["input_ids"][:, 1:])
    assert torch.equal(batch["labels"], plain["labels"])


def test_a_decoder_whose_tokenizer_begins_texts_with_two_tokens_predicts_neither():
    tokenizer = pico.glm_layout()
    blocks = Blocks(stream(np.arange(5 * LENGTH + 1)), tokenizer, "decoder", length=LENGTH)
    batch = blocks.batch(list(range(blocks.count)))
    before = tokenizer.convert_tokens_to_ids(["[gMASK]", "<sop>"])
    assert batch["input_ids"].shape == batch["labels"].shape == (blocks.count, LENGTH)
    assert (batch["input_ids"][:, :2] == torch.tensor(before)).all()
    assert (batch["labels"][:, 0] == IGNORED).all()
    assert torch.equal(batch["labels"][:, 2:], batch["input_ids"][:, 2:] + 1)
    labels = batch["labels"][:, 1:].flatten()
    assert sorted(labels.tolist()) == list(range(1, len(labels) + 1))  # each token of the text once


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_row_depends_on_its_position_and_not_on_its_batch(packed, tokenizer, kind):
    blocks = Blocks(packed, tokenizer, kind, length=LENGTH)
    far = blocks.count + 3
    together = blocks.batch([5, 6, far])
    again = Blocks(packed, tokenizer, kind, length=LENGTH)
    for row, position in enumerate((5, 6, far)):
        alone = again.batch([position])
        for name, rows in together.items():
            assert rows.dtype == torch.int64
            assert torch.equal(alone[name][0], rows[row])


def test_the_global_random_state_neither_matters_nor_changes(packed, tokenizer):
    blocks = masked(packed, tokenizer)
    torch.manual_seed(1)
    first, state = blocks.batch([3]), torch.get_rng_state()
    torch.manual_seed(2)
    second = blocks.batch([3])
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_block_is_masked_elsewhere_in_the_next_epoch(packed, tokenizer):
    blocks = masked(packed, tokenizer)
    first = blocks.batch(list(range(blocks.count)))
    second = blocks.batch(list(range(blocks.count, 2 * blocks.count)))
    positions = {tuple(row): index for index, row in enumerate(unmasked(second).tolist())}
    assert len(positions) == blocks.count, "two blocks are the same: this test needs other text"
    pairs = [(index, positions[tuple(row)]) for index, row in enumerate(unmasked(first).tolist())]
    assert sorted(new for _, new in pairs) == list(range(blocks.count))
    same = [torch.equal(first["labels"][old], second["labels"][new]) for old, new in pairs]
    assert np.mean(same) < 0.1, "masks came again with their block"


def test_masks_change_with_the_seed(packed, tokenizer):
    one, other = (masked(packed, tokenizer, seed=seed).batch(list(range(20))) for seed in (0, 1))
    assert not torch.equal(one["labels"] == IGNORED, other["labels"] == IGNORED)


@pytest.mark.parametrize("make", [pico.wordpiece, pico.roberta_tokenizer])
def test_special_tokens_and_separators_are_never_predicted(make, tmp_path):
    tokenizer = make()
    blocks = masked(packed_in(tmp_path, Corpus.from_lines(pico.sentences(300)), tokenizer), tokenizer, masking=1.0)
    batch = blocks.batch(list(range(blocks.count)))
    special = torch.isin(unmasked(batch), torch.tensor(tokenizer.all_special_ids))
    assert special[:, 1:-1].any(), "there is no separator inside a sequence"
    assert (batch["labels"][special] == IGNORED).all()
    assert (batch["labels"][~special] != IGNORED).all(), "masking = 1 predicts everything else"


def test_unknown_tokens_are_predicted_as_in_scores(tmp_path):
    tokenizer = pico.wordpiece()
    lines = [line.replace("house", "☃") for line in pico.sentences(300)]
    blocks = masked(packed_in(tmp_path, Corpus.from_lines(lines), tokenizer), tokenizer, masking=1.0)
    batch = blocks.batch(list(range(blocks.count)))
    unknown = unmasked(batch) == tokenizer.unk_token_id
    assert unknown.sum() > 20, "the text has no unknown tokens"
    assert (batch["labels"][unknown] == tokenizer.unk_token_id).all()


def test_an_unknown_token_that_also_separates_texts_is_not_predicted():
    tokenizer = pico.roberta_tokenizer()
    tokenizer.unk_token = tokenizer.sep_token
    rows = torch.tensor([[tokenizer.sep_token_id, 40, 41, tokenizer.sep_token_id]])
    labels = Masks(tokenizer, 1.0, 0)(rows, [0])["labels"]
    assert labels.tolist() == [[IGNORED, 40, 41, IGNORED]]


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_about_the_requested_share_is_labelled_and_most_of_it_masked(packed, tokenizer, share):
    blocks = masked(packed, tokenizer, masking=share)
    batch = blocks.batch(list(range(blocks.count)))
    plain = ~torch.isin(unmasked(batch), torch.tensor(tokenizer.all_special_ids))
    labelled = batch["labels"] != IGNORED
    assert labelled[plain].float().mean().item() == pytest.approx(share, abs=0.02)
    hidden = batch["input_ids"][labelled] == tokenizer.mask_token_id
    assert hidden.float().mean().item() == pytest.approx(0.8, abs=0.03)
    left = batch["input_ids"][labelled] == batch["labels"][labelled]
    assert left.float().mean().item() == pytest.approx(0.1, abs=0.03)


def test_replaced_tokens_come_from_the_whole_vocabulary(packed, tokenizer):
    blocks = masked(packed, tokenizer, masking=1.0)
    batch = blocks.batch(list(range(40 * blocks.count)))
    inputs, labels = batch["input_ids"], batch["labels"]
    replaced = inputs[(labels != IGNORED) & (inputs != labels) & (inputs != tokenizer.mask_token_id)]
    counts = torch.bincount(replaced, minlength=len(tokenizer)).float()
    assert len(counts) == len(tokenizer), "a token that is none"
    tenth = len(tokenizer) // 10
    assert counts[:tenth].mean() / counts.mean() == pytest.approx(1, abs=0.25)
    assert counts[-tenth:].mean() / counts.mean() == pytest.approx(1, abs=0.25)


def test_sequences_have_special_tokens_around_them_and_the_exact_length(packed, tokenizer):
    blocks = masked(packed, tokenizer)
    batch = blocks.batch(list(range(30)))
    assert batch["input_ids"].shape == batch["labels"].shape == (30, LENGTH)
    assert (batch["input_ids"][:, 0] == tokenizer.cls_token_id).all()
    assert (batch["input_ids"][:, -1] == tokenizer.sep_token_id).all()
    order = [tuple(row) for row in unmasked(batch)[:, 1:-1].tolist()]
    body = LENGTH - sum(map(len, encoder_frame(tokenizer)))
    text = {tuple(packed.tokens[start : start + body].tolist()) for start in range(0, len(packed) - body, body)}
    assert set(order) <= text


def test_the_packed_text_is_not_changed_by_masks(packed, tokenizer):
    before = packed.tokens.tolist()
    memory = PackedText(packed.tokens.astype(np.int64), packed.separator, 1, 1, 0, "memory")
    masked(memory, tokenizer, masking=1.0).batch([0, 1, 2])
    assert memory.tokens.tolist() == before


@pytest.mark.parametrize(("kind", "needed"), [("decoder", 17), ("encoder", 15)])
def test_text_shorter_than_a_sequence_is_rejected_with_both_numbers(tokenizer, kind, needed):
    with pytest.raises(InputError, match=rf"has {needed - 1} tokens, but one sequence of 16 needs {needed}: "):
        Blocks(stream(np.arange(10, 10 + needed - 1)), tokenizer, kind, length=LENGTH)
    assert Blocks(stream(np.arange(10, 10 + needed)), tokenizer, kind, length=LENGTH).count == 1


def test_a_sequence_too_short_for_text_is_rejected(tokenizer):
    with pytest.raises(InputError, match="blocks of 0 tokens"):
        masked(stream(np.arange(100)), tokenizer, length=2)


def test_an_encoder_without_a_mask_token_is_rejected(packed):
    with pytest.raises(VocabularyError, match="no mask token"):
        masked(packed, pico.byte_level())


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_loader_reads_a_stage_in_order_from_its_first_position(packed, tokenizer, kind):
    blocks = Blocks(packed, tokenizer, kind, length=LENGTH)
    first, count = blocks.count - 5, 22
    sequences = Sequences(blocks, first, count)
    assert len(sequences) == count
    loader = DataLoader(sequences, batch_size=4, sampler=SequentialSampler(sequences), collate_fn=lambda batch: batch)
    batches = list(loader)
    assert [len(batch["labels"]) for batch in batches] == [4, 4, 4, 4, 4, 2]
    expected = blocks.batch(list(range(first, first + count)))
    for name, rows in expected.items():
        assert torch.equal(torch.cat([batch[name] for batch in batches]), rows)
        assert torch.equal(sequences[7][name], rows[7])


def test_a_decoder_predicts_everywhere_and_two_texts_have_the_larger_share_of_labels(packed, tokenizer):
    few, many = (masked(packed, tokenizer, masking=share) for share in (0.1, 0.4))
    assert Blocks(packed, tokenizer, "decoder", length=LENGTH).label_share == 1
    assert (few.label_share, TwoTexts(few, many).label_share) == (0.1, 0.4)
