"""Semantic roles: loss, decoding, counts, training."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from relexify.errors import EvidenceError, InputError, TrainingError
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.data.propositions import PredicateSentence, Proposition
from relexify.evaluation.options import Evaluation, ParserTraining
from relexify.evaluation.parsing.inputs import tokenize_sentences
from relexify.evaluation.parsing.roles import NO_ROLE, ROLES, UNSEEN, RoleLabeller, label_roles, role_scores
from relexify.evaluation.parsing.training import load_parser, train_parser
from relexify.evaluation.registry import TASKS
from relexify.pretrained.architecture import IGNORED
from tests import pico

LABELS = ["01", "02", "A0", "A1"]
QUICK = ParserTraining(
    epochs=8, batch=3, learning_rate=2e-3, score_learning_rate=2e-2, arc_size=24, label_size=16, dropout=0.0
)


def sentence(draw: random.Random) -> PredicateSentence:
    """A verb between its agent and its patient, with words around them; the verb decides the sense."""
    verb = draw.choice(["na", "ro"])
    words = [draw.choice(["ta", "ke"]), draw.choice(["mi", "su"]), verb, draw.choice(["mi", "su"])]
    return PredicateSentence(tuple(words), (Proposition(2, "01" if verb == "na" else "02", ((1, "A0"), (3, "A1"))),))


DRAW = random.Random(0)
TRAINING = [sentence(DRAW) for _ in range(24)]


def noisy() -> tuple[RoleLabeller, object]:
    model, tokenizer = pico.pair("bert")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        labeller = RoleLabeller.on_top_of(model, LABELS, arc_size=16, label_size=8).eval()
        for form in (labeller.arc, labeller.label):
            torch.nn.init.normal_(form.weight)
    return labeller, tokenizer


def test_senses_and_arguments_are_counted_together():
    gold = [PredicateSentence(("a", "b", "c"), (Proposition(1, "01", ((0, "A0"), (2, "A1"))),))]
    # right: the sense and A0; wrong: the role of word 2, and an argument that is none
    found = [(Proposition(1, "01", ((0, "A0"), (2, "A2"), (1, "A1"))),)]
    f1, precision, recall = role_scores(gold, found)
    assert (precision.value, recall.value) == (2 / 4, 2 / 3)
    assert f1.value == pytest.approx(2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3))
    assert (f1.metric, f1.examples, f1.higher_is_better) == ("F1", 3, True)
    assert role_scores(gold, [()]).precision.value == 0
    with pytest.raises(InputError, match="0 of 1 sentences"):
        role_scores(gold, [])
    with pytest.raises(EvidenceError, match="no predicates"):
        role_scores([PredicateSentence(("a",), ())], [()])


def test_the_loss_is_that_of_every_arc_to_a_predicate_and_of_the_labels_of_gold_arcs():
    labeller, tokenizer = noisy()
    each = PredicateSentence(("ta", "na", "mi"), (Proposition(1, "02", ((0, "A0"), (1, "A1"))),))
    numbers = {label: number for number, label in enumerate(LABELS)}
    gold = ROLES.gold(each, numbers)
    assert gold.tolist() == [
        [IGNORED, IGNORED, numbers["A0"], IGNORED],
        [numbers["02"], IGNORED, numbers["A1"], IGNORED],
        [IGNORED, IGNORED, NO_ROLE, IGNORED],
    ]
    longer = PredicateSentence(("ta", "na", "mi", "su"), ())
    tokenized = tokenize_sentences(tokenizer, [each, longer], None)
    with torch.no_grad():
        output = labeller(**ROLES.batch(tokenized, [gold, ROLES.gold(longer, numbers)]))
    arcs = output.arc_scores[0, :3, 2]
    chosen = torch.tensor([True, True, False])
    expected = -torch.where(chosen, arcs.sigmoid(), 1 - arcs.sigmoid()).log().mean()
    for word, head, label in ((1, 0, "02"), (0, 2, "A0"), (1, 2, "A1")):
        one = torch.ones(1)
        left = torch.cat([output.label_dependents[0, word], one])
        right = torch.cat([output.label_heads[0, head], one])
        scores = torch.stack([left @ labeller.label.weight[number] @ right for number in range(len(LABELS))])
        expected = expected - scores.log_softmax(0)[numbers[label]] / 3
    torch.testing.assert_close(output.loss, expected, rtol=1e-4, atol=1e-5)


def test_a_labeller_learns_senses_and_roles_and_is_the_same_when_loaded(tmp_path):
    folder = pico.saved("bert", tmp_path / "bert")
    (run,) = train_parser(folder, TRAINING, TRAINING, QUICK, tmp_path / "runs", formalism=ROLES)
    labeller, tokenizer = load_parser(run.folder, RoleLabeller)
    found = label_roles(labeller, tokenizer, TRAINING, batch=5)
    assert role_scores(TRAINING, found).f1.value == run.score > 0.9
    # Only which words are predicates is read.
    hidden = [replace(each, propositions=(Proposition(2, "?", ()),)) for each in TRAINING]
    assert label_roles(labeller, tokenizer, hidden) == found


def test_the_task_reports_f1_precision_and_recall(tmp_path):
    folder = pico.saved("bert", tmp_path / "bert")
    options = Evaluation("roles", epochs=1, batch=8, score_learning_rate=1e-3)
    data = TaskData(TRAINING, TRAINING[:6], TRAINING[:6])
    result = TASKS["roles"].evaluate(str(folder), data, replace(options, device="cpu"), tmp_path / "work")
    assert [score.metric for score in result.per_seed[0].scores] == ["F1", "precision", "recall"]
    assert result.per_seed[0].dev.metric == "F1"


def test_a_word_is_an_argument_only_if_its_arc_scores_above_zero():
    model, tokenizer = pico.pair("bert")
    labeller = RoleLabeller.on_top_of(model, LABELS, arc_size=1, label_size=8).eval()
    ((untrained,),) = label_roles(labeller, tokenizer, TRAINING[:1])  # every score is zero
    assert untrained.arguments == ()
    with torch.no_grad():  # heads are represented by 1, dependents by 0 and a one: every score is that of the one
        for perceptron, value in ((labeller.arc_head, 1.0), (labeller.arc_dependent, 0.0)):
            perceptron[0].weight.zero_()
            perceptron[0].bias.fill_(value)
        labeller.arc.weight[0, -1, 0] = 0.01
    ((found,),) = label_roles(labeller, tokenizer, TRAINING[:1])
    assert [word for word, _ in found.arguments] == [0, 1, 2, 3]


def test_predicates_beyond_the_length_of_a_model_are_wrong_and_nan_is_reported():
    labeller, tokenizer = noisy()
    long = PredicateSentence(("ta",) * 100, (Proposition(1, "01", ()), Proposition(99, "01", ())))
    (first, last) = label_roles(labeller, tokenizer, [long])[0]
    assert first.sense in LABELS
    assert last == Proposition(99, UNSEEN, ())
    with torch.no_grad():
        labeller.arc.weight.fill_(torch.nan)
    with pytest.raises(TrainingError, match="NaN"):
        label_roles(labeller, tokenizer, [long])
