"""The rows of a batch: pairs for every objective, masked sentences, next sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED
from relexify.systems.trelm.data.batches import InLanguage, PairBatches
from relexify.systems.trelm.data.next_sentences import SegmentPairs
from relexify.systems.trelm.data.pairs import AlignedSentence
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.text import Corpus
from relexify.training.data.batches import Blocks
from tests import pico
from tests.systems.trelm.data.test_pairs import three_pairs
from tests.training.runs import packed_in

TOKENIZER = pico.wordpiece(pico.sentences() + pico.sentences(words=pico.foreign_words()), size=400)
CLS, SEP, MASK, PAD = (TOKENIZER.convert_tokens_to_ids(name) for name in ("[CLS]", "[SEP]", "[MASK]", "[PAD]"))


@pytest.mark.parametrize("direction", ["source-to-target", "target-to-source"])
def test_a_pair_is_read_on_one_side_and_written_on_the_other(direction: str) -> None:
    pairs = three_pairs()
    batches = PairBatches(pairs, TOKENIZER, direction=direction, seed=3)
    read = 0 if direction == "source-to-target" else 1
    rows = batches.batch([0, 1, 2, 3])
    assert rows["languages"].tolist() == [read, 1, read, 1]
    assert rows["target_languages"].tolist() == [1 - read, 1, 1 - read, 1]
    seen = set()
    for index in (0, 2):
        ids = rows["input_ids"][index][rows["attention_mask"][index] == 1].tolist()
        wanted = rows["labels"][index][rows["target_attention_mask"][index] == 1].tolist()
        number = next(number for number in range(2) if ids == [CLS, *pairs.pair(number)[read].ids, SEP])
        other = pairs.pair(number)[1 - read]
        assert wanted == [CLS, *other.ids, SEP]
        order = rows["order"][index][rows["target_attention_mask"][index] == 1].tolist()
        assert order == [0, *(p if p == UNALIGNED else p + 1 for p in other.positions.tolist()), len(ids) - 1]
        assert (rows["labels"][index][rows["target_attention_mask"][index] == 0] == IGNORED).all()
        assert (rows["input_ids"][index][rows["attention_mask"][index] == 0] == PAD).all()
        seen.add(number)
    assert seen == {0, 1}


@pytest.mark.parametrize(
    ("read", "written", "order"),
    [
        (
            ([CLS], [SEP]),
            ([CLS, MASK], [SEP, PAD]),
            [0, 0, 1, 2, 2],
        ),
        (([CLS, MASK], [SEP, PAD]), ([CLS, MASK], [SEP, PAD]), [0, 1, 2, 3, 4]),
        (([CLS, MASK], [SEP, PAD]), ([CLS], [SEP]), [0, 2, 3]),
        (([], [SEP]), ([CLS], [SEP]), [UNALIGNED, 0, 1]),
    ],
)
def test_special_tokens_are_aligned_one_by_one(read: Any, written: Any, order: list[int]) -> None:
    batches = PairBatches(three_pairs(), TOKENIZER)
    batches.frames = read, written
    sentence = AlignedSentence(np.array([7]), np.array([0]))
    assert batches._translation((sentence, sentence))["order"].tolist() == order


@pytest.mark.parametrize("direction", ["source-to-target", "target-to-source"])
def test_beside_every_pair_its_target_sentence_is_masked_in_its_own_order(direction: str) -> None:
    """Algorithm 1, line 12: always a sentence of the target language, whichever language is read."""
    pairs = three_pairs()
    rows = PairBatches(pairs, TOKENIZER, direction=direction, masking=0.9).batch([1, 3])
    for index in range(2):
        real = rows["attention_mask"][index] == 1
        whole = torch.where(rows["labels"][index] == IGNORED, rows["input_ids"][index], rows["labels"][index])[real]
        assert whole.tolist() in [[CLS, *pairs.pair(number)[1].ids, SEP] for number in range(2)]
        assert rows["order"][index][real].tolist() == list(range(int(real.sum())))
        labelled = rows["labels"][index] != IGNORED
        assert labelled.any()
        assert not labelled[~real].any()


@pytest.mark.parametrize("objective", ["cdlm", "tlm", "brlm"])
def test_a_row_depends_on_its_position_alone(objective: str) -> None:
    batches = PairBatches(three_pairs(), TOKENIZER, objective=objective, masking=0.5, seed=1)
    together = batches.batch(list(range(8)))
    for position in range(8):
        alone = batches.batch([position])
        for name, row in alone.items():
            whole = together[name][position]
            assert torch.equal(row[0], whole[: row.shape[1]] if row.dim() > 1 else whole), (name, position)
    other = PairBatches(three_pairs(), TOKENIZER, objective=objective, masking=0.5, seed=2).batch(list(range(8)))
    assert not all(torch.equal(rows, other[name]) for name, rows in together.items() if rows.shape == other[name].shape)


def test_tlm_concatenates_both_sentences_with_masks_in_both() -> None:
    pairs = three_pairs()
    rows = PairBatches(pairs, TOKENIZER, objective="tlm", masking=0.5).batch(list(range(0, 40, 2)))
    gaps = {0: 0, 1: 0}
    for index in range(20):
        real = rows["attention_mask"][index] == 1
        whole = torch.where(rows["labels"][index] == IGNORED, rows["input_ids"][index], rows["labels"][index])[real]
        sequences = [(x.ids.tolist(), y.ids.tolist()) for x, y in (pairs.pair(0), pairs.pair(1))]
        source, target = next(pair for pair in sequences if whole.tolist() == [CLS, *pair[0], SEP, *pair[1], SEP])
        sides = [0] * (len(source) + 2) + [1] * (len(target) + 1)
        assert rows["token_type_ids"][index][real].tolist() == sides
        assert rows["languages"][index][real].tolist() == sides
        for number, label in enumerate(rows["labels"][index][real].tolist()):
            gaps[sides[number]] += label != IGNORED
    assert min(gaps.values()) > 5
    one = PairBatches(pairs, TOKENIZER, objective="tlm", segments=1).batch([0])
    assert not one["token_type_ids"].any()
    assert "order" not in rows


def test_a_bridge_leads_from_a_masked_token_to_its_translation() -> None:
    pairs = three_pairs()
    rows = PairBatches(pairs, TOKENIZER, objective="brlm", masking=1.0, seed=0).batch([0, 2])
    for index in range(2):
        ids = rows["labels"][index]
        first = 0 if 10 in ids.tolist() else 1
        source, target = pairs.pair(first)
        start = len(source.ids) + 2
        expected = [0]
        expected += [start + p if p != UNALIGNED else 1 + i for i, p in enumerate(source.positions.tolist())]
        expected += [start - 1]
        expected += [1 + p if p != UNALIGNED else start + j for j, p in enumerate(target.positions.tolist())]
        expected += [start + len(target.ids)]
        assert rows["bridge"][index][: len(expected)].tolist() == expected
    without = PairBatches(pairs, TOKENIZER, objective="brlm", masking=1e-9).batch([0])
    real = int(without["attention_mask"].sum())
    assert without["bridge"][0, :real].tolist() == list(range(real))


def packed_text(tmp_path: Any, lines: int = 60) -> Any:
    file = tmp_path / "text.txt"
    file.write_text("\n".join(pico.sentences(lines)))
    return packed_in(tmp_path / "cache", Corpus.open(file), TOKENIZER)


def test_second_segments_follow_the_first_in_half_of_the_cases(tmp_path: Any) -> None:
    packed = packed_text(tmp_path)
    pairs = SegmentPairs(packed, TOKENIZER, length=20, masking=0.3, seed=5)
    rows = pairs.batch(list(range(1_000)))
    assert rows["input_ids"].shape == (1_000, 20)
    share = float((rows["next_sentence_label"] == 0).float().mean())
    assert share == pytest.approx(0.5, abs=0.05)  # three standard errors
    blocks = packed.tokens[: pairs.count * 17].reshape(-1, 17)
    whole = torch.where(rows["labels"] == IGNORED, rows["input_ids"], rows["labels"]).numpy()
    for row, label in zip(whole, rows["next_sentence_label"].tolist(), strict=True):
        assert (row[0], row[9], row[-1]) == (CLS, SEP, SEP)
        together = np.concatenate([row[1:9], row[10:-1]])
        is_block = bool((blocks == together).all(axis=1).any())
        assert is_block == (label == 0), "BERT's pretrained head scores a continuation first"
    assert rows["token_type_ids"][0].tolist() == [0] * 10 + [1] * 10
    # A segment that does not follow comes from any other block, and not always from the next one.
    others = np.flatnonzero(rows["next_sentence_label"].numpy() == 1)
    places = {
        int((seconds - firsts) % pairs.count)
        for row in whole[others]
        for firsts in np.flatnonzero((blocks[:, :8] == row[1:9]).all(axis=1))
        for seconds in np.flatnonzero((blocks[:, 8:] == row[10:-1]).all(axis=1))
    }
    assert len(places) > pairs.count / 2
    alone = pairs.batch([7])
    assert all(torch.equal(alone[name][0], rows[name][7]) for name in rows)


def test_next_sentences_need_text_and_a_separator(tmp_path: Any) -> None:
    packed = packed_text(tmp_path, 3)
    with pytest.raises(InputError, match="too few for two sequences"):
        SegmentPairs(packed, TOKENIZER, length=200)
    with pytest.raises(VocabularyError, match="to separate segments"):
        SegmentPairs(packed, pico.byte_level(bos_token="<s>"), length=20)


def test_rows_of_a_text_have_their_language(tmp_path: Any) -> None:
    blocks = Blocks(packed_text(tmp_path), TOKENIZER, "encoder", length=16)
    rows = InLanguage(blocks, 1).batch([0, 1, 2])
    assert rows["languages"].tolist() == [1, 1, 1]
    assert torch.equal(rows["input_ids"], blocks.batch([0, 1, 2])["input_ids"])


def test_no_row_is_padded_beyond_the_length_of_a_sequence() -> None:
    pairs = three_pairs()
    plain, short = (PairBatches(pairs, TOKENIZER, length=length).batch([0, 2]) for length in (None, 7))
    assert (plain["input_ids"].shape[1], short["input_ids"].shape[1]) == (8, 7)
    assert torch.equal(plain["input_ids"][:, :7], short["input_ids"])
