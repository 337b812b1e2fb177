"""Probes read off what is there, and nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evaluation.probing.probes import fit_probe, probe_pairs, probe_words
from tests import pico

DRAW = np.random.default_rng(0)


def accuracy(probe, features, labels):
    return np.mean([one == other for one, other in zip(probe.predict(features), labels, strict=True)])


def test_separable_features_are_learned_and_shuffled_labels_are_not():
    centres = DRAW.normal(size=(4, 20)) * 3
    positions = DRAW.integers(0, 4, 2000)
    features = (centres[positions] + 0.3 * DRAW.normal(size=(2000, 20))).astype(np.float32)
    labels = np.array(["noun", "verb", "mark", "name"])[positions]
    assert accuracy(fit_probe(features[:1000], labels[:1000]), features[1000:], labels[1000:]) == 1.0
    shuffled = DRAW.permutation(labels)
    chance = accuracy(fit_probe(features[:1000], shuffled[:1000]), features[1000:], shuffled[1000:])
    assert chance == pytest.approx(0.25, abs=0.06)


def test_weights_equal_those_of_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    features = DRAW.normal(size=(400, 12)) * np.linspace(0.1, 50, 12) + 7
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    labels = (standard @ DRAW.normal(size=(12, 3)) + DRAW.gumbel(size=(400, 3))).argmax(axis=1)
    theirs = linear.LogisticRegression(C=1 / 2.5, tol=1e-8, max_iter=1000).fit(standard, labels)
    ours = fit_probe(features, list(labels), penalty=2.5)
    order = [ours.labels.index(label) for label in theirs.classes_]
    found = ours.weights[:, order] * features.std(axis=0)[:, None]
    assert np.allclose(found, theirs.coef_.T, atol=5e-3)
    probabilities = np.exp(features @ ours.weights[:, order] + ours.bias[order])
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert np.allclose(probabilities, theirs.predict_proba(standard), atol=2e-3)


def test_the_scale_of_features_does_not_matter_and_fitting_is_repeatable():
    features, labels = DRAW.normal(size=(300, 8)), list(DRAW.integers(0, 3, 300))
    first, again = fit_probe(features, labels), fit_probe(features, labels)
    assert np.array_equal(first.weights, again.weights)
    scaled = fit_probe(features * 1000 - 5, labels)
    assert np.allclose(scaled.weights * 1000, first.weights, atol=1e-3)


def test_a_feature_that_never_changes_and_a_single_label_do_no_harm():
    features = np.concatenate([np.ones((10, 1)), DRAW.normal(size=(10, 2))], axis=1)
    probe = fit_probe(features, ["same"] * 10)
    assert probe.predict(features) == ["same"] * 10
    assert np.isfinite(probe.weights).all()


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (np.ones((2, 2)), ["a"], {}, "2 rows of features, but 1 labels"),
        (np.full((2, 2), np.nan), ["a", "b"], {}, "have NaN or infinite values"),
        (np.ones((2, 2)), ["a", "b"], {"penalty": -1.0}, "`penalty=-1.0"),
    ],
)
def test_invalid_probes_are_rejected(features, labels, options, message):
    with pytest.raises(InputError, match=message):
        fit_probe(features, labels, **options)


MODEL, TOKENIZER = pico.pair("bert")
NOUNS, VERBS = ["river", "house", "teacher", "student", "bread"], ["walks", "sees", "opens", "closes", "reads"]


def pairs(count, seed):
    """The hypothesis repeats the premise, or speaks of something else."""
    draw = random.Random(seed)
    subjects, others = ["the teacher reads", "a student walks"], ["bread in water", "green door"]
    examples = []
    for _ in range(count):
        premise, hypothesis = draw.choice(subjects + others), draw.choice(subjects + others)
        label = "entailment" if (premise in subjects) and (hypothesis in subjects) else "neutral"
        examples.append((premise, hypothesis, label))
    return examples


def tagged(count, seed):
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        words = ["the", draw.choice(NOUNS), draw.choice(VERBS)]
        sentences.append((words, ["DET", "NOUN", "VERB"]))
    return sentences


def test_pairs_are_predicted_from_both_texts():
    score = probe_pairs(MODEL, TOKENIZER, pairs(200, 0), pairs(60, 1))
    assert (score.value, score.metric, score.examples, score.higher_is_better) == (1.0, "accuracy", 60, True)
    draw = random.Random(4)
    shuffled = [(premise, hypothesis, draw.choice("ab")) for premise, hypothesis, _ in pairs(400, 2)]
    assert 0.3 < probe_pairs(MODEL, TOKENIZER, shuffled[:200], shuffled[200:]).value < 0.7


def test_words_are_predicted_from_their_pieces():
    score = probe_words(MODEL, TOKENIZER, tagged(40, 0), tagged(20, 1))
    assert (score.value, score.examples, score.task) == (1.0, 60, "POS probe")


def test_labels_unseen_in_training_count_as_wrong():
    test = [(words, ["DET", "PROPN", "VERB"]) for words, _ in tagged(10, 1)]
    assert probe_words(MODEL, TOKENIZER, tagged(40, 0), test).value == pytest.approx(2 / 3)
    unseen = [(premise, hypothesis, "contradiction") for premise, hypothesis, _ in pairs(10, 3)]
    assert probe_pairs(MODEL, TOKENIZER, pairs(50, 0), unseen).value == 0.0


def test_words_that_the_model_does_not_see_count_as_wrong_and_are_not_trained_on():
    hidden = [(["\u200b", *words], ["X", *tags]) for words, tags in tagged(20, 1)]
    score = probe_words(MODEL, TOKENIZER, [*tagged(40, 0), *hidden], hidden)
    assert (score.value, score.examples) == (pytest.approx(3 / 4), 80)


def test_missing_examples_and_tags_are_rejected():
    with pytest.raises(EvidenceError, match="no training examples"):
        probe_pairs(MODEL, TOKENIZER, [], pairs(5, 0))
    with pytest.raises(EvidenceError, match="no test examples"):
        probe_words(MODEL, TOKENIZER, tagged(5, 0), [])
    with pytest.raises(EvidenceError, match="sees no word"):
        probe_words(MODEL, TOKENIZER, [([], [])], tagged(5, 0))
    with pytest.raises(InputError, match="test sentence 2 has 3 words, but 2 tags"):
        probe_words(MODEL, TOKENIZER, tagged(5, 0), [*tagged(1, 0), (["the", "river", "sees"], ["DET", "NOUN"])])
