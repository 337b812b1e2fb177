"""Every metric on numbers that can be checked by hand."""

from __future__ import annotations

import math
import random
import sys
from typing import Any

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.metrics import (
    Confusion,
    LabelRow,
    accuracy,
    accuracy_and_f1,
    answer_scores,
    confusion,
    correlations,
    entity_scores,
    entity_table,
    f1,
    label_table,
    matthews,
)
from relexify.scoring import Score

GOLD, SAID = list("1110001010"), list("1100011000")
"""Three 1s found, two missed, one 0 taken for a 1, four 0s found."""


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-12)


def test_accuracy():
    assert accuracy(GOLD, SAID, task="sst-2") == Score("sst-2", "accuracy", 0.7, higher_is_better=True, examples=10)


def test_f1_of_one_label():
    assert f1(GOLD, SAID, task="mrpc").value == close(2 * 3 / (4 + 5))
    assert f1(list("00"), list("00"), task="mrpc").value == 0


def test_accuracy_and_f1():
    scores = accuracy_and_f1(GOLD, SAID, task="mrpc")
    assert [score.metric for score in scores] == ["mean of accuracy and F1", "accuracy", "F1"]
    assert [score.value for score in scores] == [close((0.7 + 2 / 3) / 2), close(0.7), close(2 / 3)]


def test_matthews():
    # (tp·tn - fp·fn) / √((tp+fp)(tp+fn)(tn+fp)(tn+fn))
    assert matthews(GOLD, SAID, task="cola").value == close((3 * 4 - 1 * 2) / math.sqrt(4 * 5 * 5 * 6))
    assert matthews(list("01"), list("10"), task="cola").value == close(-1)
    assert matthews(list("0110"), list("0110"), task="cola").value == close(1)
    assert matthews(list("0110"), list("1111"), task="cola").value == 0


def test_matthews_of_three_labels():
    # right·total - Σ real·said = 3·4 - (2·1 + 1·2 + 1·1) = 7; √(16 - 6) · √(16 - 6) = 10
    assert matthews(list("aabc"), list("abbc"), task="x").value == close(0.7)


def test_correlations():
    mean, linear, ranked = correlations([1, 2, 3, 4], [1, 2, 4, 3], task="sts-b")
    assert (linear.value, ranked.value, mean.value) == (close(0.8), close(0.8), close(0.8))
    mean, linear, ranked = correlations([1, 2, 3], [1, 2, 9], task="sts-b")
    assert ranked.value == close(1)
    assert linear.value == close(8 / math.sqrt(2 * 38))
    assert mean.value == close((linear.value + ranked.value) / 2)
    assert [score.metric for score in (linear, ranked)] == ["Pearson correlation", "Spearman correlation"]


def test_ranks_that_are_tied_share_their_mean():
    # ranks 1.5 1.5 3 against 1 2 3
    assert correlations([1, 1, 2], [1, 2, 3], task="x")[2].value == close(1.5 / math.sqrt(1.5 * 2))


def test_a_constant_correlates_with_nothing():
    assert [score.value for score in correlations([1, 2, 3], [2, 2, 2], task="x")] == [0, 0, 0]
    # The mean of six times 0.1 is rounded to another number.
    assert [score.value for score in correlations([0.7] * 6, [0.1] * 6, task="x")] == [0, 0, 0]


TAGS = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG", "B-LOC"], []]
FOUND = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-ORG", "I-ORG"], []]
"""Gold PER, LOC, ORG, LOC; found PER (right), ORG (wrong kind), ORG (too long)."""


def test_whole_names():
    scores = entity_scores(TAGS, FOUND, task="ner")
    assert [score.metric for score in scores] == ["entity F1", "entity precision", "entity recall"]
    assert [score.value for score in scores] == [close(2 / 7), close(1 / 3), close(1 / 4)]
    assert scores[0].examples == 4


def test_names_by_kind():
    assert entity_table(TAGS, FOUND) == (
        LabelRow("LOC", 0, 0, 0, 2),
        LabelRow("ORG", 0, 0, 0, 1),
        LabelRow("PER", 1, 1, 1, 1),
    )


def test_names_without_a_beginning_count():
    gold, said = [["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]]
    assert entity_scores(gold, said, task="ner")[0].value == 1


def test_names_end_with_their_sentence():
    assert entity_scores([["B-PER"], ["I-PER"]], [["B-PER"], ["O"]], task="ner")[2].value == close(0.5)


def test_no_names_at_all():
    assert [score.value for score in entity_scores([["O"]], [["O"]], task="ner")] == [0, 0, 0]


def test_names_agree_with_seqeval():
    from seqeval.metrics import f1_score

    draw = random.Random(0)
    tags = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    gold, said = ([draw.choices(tags, k=draw.randint(1, 9)) for _ in range(200)] for _ in range(2))
    said = [(said[index] * 9)[: len(each)] if index % 3 else each for index, each in enumerate(gold)]
    value = entity_scores(gold, said, task="ner")[0].value
    assert 0.1 < value < 0.9
    assert value == close(f1_score(gold, said))


def test_labels_agree_with_scikit_learn():
    from sklearn.metrics import f1_score, matthews_corrcoef, precision_score

    draw = random.Random(1)
    gold, said = draw.choices("abc", k=200), draw.choices("abc", k=200)
    assert matthews(gold, said, task="x").value == close(matthews_corrcoef(gold, said))
    assert [row.f1 for row in label_table(gold, said)] == [close(each) for each in f1_score(gold, said, average=None)]
    assert [row.precision for row in label_table(gold, said)] == [
        close(each) for each in precision_score(gold, said, average=None)
    ]


def test_correlations_agree_with_scipy():
    from scipy.stats import pearsonr, spearmanr

    draw = random.Random(2)
    gold, said = [float(draw.randint(0, 5)) for _ in range(99)], [draw.random() for _ in range(99)]
    _, linear, ranked = correlations(gold, said, task="x")
    assert linear.value == close(pearsonr(gold, said).statistic)
    assert ranked.value == close(spearmanr(gold, said).statistic)


def test_table_of_labels():
    assert label_table(list("aab"), list("abc")) == (
        LabelRow("a", 1, 0.5, close(2 / 3), 2),
        LabelRow("b", 0, 0, 0, 1),
        LabelRow("c", 0, 0, 0, 0),
    )


def test_confusion():
    assert confusion(list("aab"), list("abc")) == Confusion(("a", "b", "c"), ((1, 1, 0), (0, 0, 1), (0, 0, 0)))


@pytest.mark.parametrize("metric", [accuracy, f1, accuracy_and_f1, matthews, correlations, entity_scores])
def test_nothing_to_score_and_unequal_numbers(metric):
    with pytest.raises(InputError, match="nothing to score"):
        metric([], [], task="x")
    with pytest.raises(InputError, match="there are 1 labels, but 2 predictions"):
        metric(["a"], ["a", "b"], task="x")


def test_unequal_sentences():
    with pytest.raises(InputError, match="sentence 2 has 1 tags, but 2 predictions"):
        entity_scores([["O"], ["O"]], [["O"], ["O", "O"]], task="ner")


def test_tags_that_are_no_names():
    with pytest.raises(InputError, match="the tag 'NOUN' is not IOB2"):
        entity_scores([["NOUN"]], [["O"]], task="ner")


def test_infinite_predictions_are_rejected():
    with pytest.raises(InputError, match="finite numbers"):
        correlations([1.0, 2.0], [1.0, math.nan], task="x")


def test_seqeval_is_optional(monkeypatch):
    for name in ("seqeval", "seqeval.metrics.sequence_labeling", "seqeval.scheme"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"needs the package seqeval: pip install 'relexify\[evaluation\]'"):
        entity_scores([["O"]], [["O"]], task="ner")


def test_answers_are_compared_by_words_with_the_best_of_several_right_ones():
    gold = [("the River", "a lake"), ("\u6771\u4eac\u90fd",), ("no",)]
    predicted = ["The river!", "\u6771\u4eac", "yes"]
    exact, overlap = answer_scores(gold, predicted, task="answer")
    assert exact.value == pytest.approx(1 / 3)
    assert overlap.value == pytest.approx((1 + 4 / 5 + 0) / 3)  # two of three characters
    assert answer_scores([("a b c",)], [""], task="answer")[1].value == 0
    assert [score.value for score in answer_scores([("…",)], ["?"], task="answer")] == [1, 1]  # no words in either
    vowels = [("\u0915\u093f",)], ["\u0915\u093e"]  # two Devanagari syllables that differ in a combining mark
    assert answer_scores(*vowels, task="answer")[0].value == 0
