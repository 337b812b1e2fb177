"""Semantic roles: which words are arguments of a predicate, and in which role.

As in Cai et al. (2018), a biaffine scorer decides for every word and every predicate. Predicates themselves have an arc
to ROOT; its label is their sense. A word may be an argument of several predicates or of itself, so every arc is a
separate decision, made before its label (Dozat & Manning, 2018). Predicates are given, as in the shared task of
CoNLL-2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import PreTrainedTokenizerFast

from relexify.errors import EvidenceError, InputError, TrainingError
from relexify.evaluation.data.propositions import PredicateSentence, Proposition
from relexify.evaluation.parsing.biaffine import BiaffineOutput, BiaffineParser, WordScores, full_precision
from relexify.evaluation.parsing.inputs import TokenizedSentence, padded_batch, predict
from relexify.evaluation.parsing.training import Formalism
from relexify.pretrained.architecture import IGNORED
from relexify.scoring import Score

__all__ = ["ROLES", "RoleLabeller", "RoleScores", "label_roles", "role_scores"]

TASK = "semantic roles"
NO_ROLE = -1
"""The label of a word that is not an argument of a predicate."""
UNSEEN = ""
"""The sense of a predicate that the model did not see because the sentence is too long; no gold sense equals it."""


class RoleLabeller(BiaffineParser):
    """A parser whose arcs form no tree: an argument has an arc to each of its predicates, a predicate one to ROOT."""

    def forward(  # type: ignore[override]  # roles instead of a tree
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_of_piece: torch.Tensor,
        word_mask: torch.Tensor,
        roles: torch.Tensor | None = None,
    ) -> BiaffineOutput:
        """Score every possible arc; with gold roles, compute the loss as well.

        Args:
            input_ids: As for `BiaffineParser.forward`.
            attention_mask: As for `BiaffineParser.forward`.
            word_of_piece: As for `BiaffineParser.forward`.
            word_mask: As for `BiaffineParser.forward`.
            roles: The label of every word's arc to ROOT (the sense of a predicate) and to every predicate (its role);
                `NO_ROLE` if there is no arc, `IGNORED` for pairs that do not count [batch × words × 1 + words].

        Returns:
            The output; an arc is predicted if its score is above 0. The loss is the mean cross entropy of arcs to
            predicates, plus the mean cross entropy of the labels of gold arcs.
        """
        scores = self.score_words(input_ids, attention_mask, word_of_piece, word_mask.shape[1])
        output = BiaffineOutput(None, scores.arc_scores, scores.label_heads, scores.label_dependents)
        if roles is not None:
            with full_precision(scores.arc_scores):
                # Arcs to ROOT are not trained, because the predicates are given.
                gold, arcs = roles[:, :, 1:], scores.arc_scores[:, :, 1:]
                counted = gold != IGNORED
                nats = binary_cross_entropy_with_logits(arcs, (gold != NO_ROLE).to(arcs.dtype), reduction="none")
                arc_nats = nats.masked_fill(~counted, 0.0).sum() / counted.sum().clamp(min=1)
                row, word, head = (roles >= 0).nonzero(as_tuple=True)
                labels = self.scores_of(scores, row, word, head)
                label_nats = cross_entropy(labels, roles[row, word, head], reduction="sum") / max(1, len(row))
                output.loss = arc_nats + label_nats
        return output

    def scores_of(self, words: WordScores, row: torch.Tensor, word: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Score the labels of single arcs [arcs × labels], given by their rows, words and heads [arcs]."""
        dependents, heads = words.label_dependents[row, word], words.label_heads[row, head]
        scores: torch.Tensor = self.label.between(dependents[None], heads[None])[0]
        return scores


class RoleScores(NamedTuple):
    """Scores of senses and arguments together, as in the shared task of CoNLL-2009.

    Attributes:
        f1: Harmonic mean of precision and recall.
        precision: Share of the predicted senses and arguments that are correct.
        recall: Share of the gold senses and arguments that are predicted.
    """

    f1: Score
    precision: Score
    recall: Score


def role_scores(gold: Sequence[PredicateSentence], predicted: Sequence[Sequence[Proposition]]) -> RoleScores:
    """Compare predicted senses and arguments with gold ones, from 0 to 1.

    Args:
        gold: The annotated sentences.
        predicted: The predicted predicates of each sentence.

    Raises:
        InputError: The numbers of sentences differ.
        EvidenceError: The sentences have no predicates.
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are predictions for {len(predicted)} of {len(gold)} sentences: give one for each")
    expected = {fact for number, each in enumerate(gold) for fact in _facts(number, each.propositions)}
    found = {fact for number, each in enumerate(predicted) for fact in _facts(number, each)}
    if not expected:
        raise EvidenceError("the sentences have no predicates: give annotated sentences")
    right = len(expected & found)
    precision, recall, f1 = right / max(1, len(found)), right / len(expected), 2 * right / (len(expected) + len(found))

    def score(metric: str, value: float) -> Score:
        return Score(TASK, metric, value, higher_is_better=True, examples=len(expected), unit="senses and arguments")

    return RoleScores(score("F1", f1), score("precision", precision), score("recall", recall))


def label_roles(
    labeller: RoleLabeller,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[PredicateSentence],
    *,
    batch: int = 64,
) -> list[tuple[Proposition, ...]]:
    """Find the senses and arguments of given predicates.

    Args:
        labeller: The labeller, on the device to compute on.
        tokenizer: The tokenizer of the labeller's encoder.
        sentences: Sentences, of which only the words and the positions of predicates are read.
        batch: Number of sentences in a batch.

    Raises:
        TrainingError: A score is NaN or infinite.
        VocabularyError: The tokenizer is not the labeller's.
    """

    def decode(
        tokenized: Sequence[TokenizedSentence], read: Sequence[PredicateSentence]
    ) -> Iterator[tuple[Proposition, ...]]:
        inputs = {name: tensor.to(labeller.device) for name, tensor in padded_batch(tokenized).items()}
        scores = labeller.score_words(
            inputs["input_ids"], inputs["attention_mask"], inputs["word_of_piece"], inputs["word_mask"].shape[1]
        )
        if not bool(scores.arc_scores.isfinite().all()):
            raise TrainingError("the parser produced NaN or infinite scores: train it with a lower learning rate")
        for row, (pieces, sentence) in enumerate(zip(tokenized, read, strict=True)):
            predicates = (proposition.predicate for proposition in sentence.propositions)
            yield tuple(
                _predict_proposition(labeller, scores, row, pieces.words, predicate) for predicate in predicates
            )

    return predict(labeller, tokenizer, sentences, decode, batch=batch)


def _predict_proposition(
    labeller: RoleLabeller, scores: WordScores, row: int, words: int, predicate: int
) -> Proposition:
    """Return the best sense of a predicate, and its arguments (words with arc scores above 0) with their best roles."""
    if predicate >= words:
        return Proposition(predicate, UNSEEN, ())
    arguments = (scores.arc_scores[row, :words, predicate + 1] > 0).nonzero()[:, 0]
    # The first arc is from the predicate to ROOT; its label is the sense.
    word = torch.cat([arguments.new_tensor([predicate]), arguments])
    head = torch.full_like(word, predicate + 1)
    head[0] = 0
    best = labeller.scores_of(scores, torch.full_like(word, row), word, head).argmax(-1).tolist()
    sense, *roles = (labeller.config.relations[label] for label in best)
    return Proposition(predicate, sense, tuple(zip(arguments.tolist(), roles, strict=True)))


def _facts(sentence: int, propositions: Sequence[Proposition]) -> Iterator[tuple[int, int, int | None, str]]:
    for proposition in propositions:
        yield sentence, proposition.predicate, None, proposition.sense
        for word, role in proposition.arguments:
            yield sentence, proposition.predicate, word, role


def _iterate_labels(sentence: PredicateSentence) -> Iterator[str]:
    for proposition in sentence.propositions:
        yield proposition.sense
        yield from (role for _, role in proposition.arguments)


def _encode_roles(sentence: PredicateSentence, numbers: Mapping[str, int]) -> torch.Tensor:
    """Return the labels of all arcs of a sentence, as `RoleLabeller.forward` takes them [words × 1 + words]."""
    roles = torch.full((len(sentence), 1 + len(sentence)), IGNORED)
    for proposition in sentence.propositions:
        roles[proposition.predicate, 0] = numbers[proposition.sense]
        roles[:, 1 + proposition.predicate] = NO_ROLE
        for word, role in proposition.arguments:
            roles[word, 1 + proposition.predicate] = numbers[role]
    return roles


def _make_batch(sentences: Sequence[TokenizedSentence], roles: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the arguments of `RoleLabeller.forward`; words that were dropped, and their arcs, get no label."""
    batch = padded_batch(sentences)
    words = batch["word_mask"].shape[1]
    batch["roles"] = torch.full((len(sentences), words, 1 + words), IGNORED)
    for row, (sentence, own) in enumerate(zip(sentences, roles, strict=True)):
        kept = sentence.words
        batch["roles"][row, :kept, : 1 + kept] = own[:kept, : 1 + kept]
    return batch


ROLES: Formalism[PredicateSentence, torch.Tensor, tuple[Proposition, ...]] = Formalism(
    parser=RoleLabeller,
    labels=_iterate_labels,
    gold=_encode_roles,
    batch=_make_batch,
    predict=label_roles,
    dev_score=lambda gold, predicted: role_scores(gold, predicted).f1.value,
    dev_metric="F1",
)
