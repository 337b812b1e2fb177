"""Parse sentences with a trained parser, and score trees by the share of words that are attached correctly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from relexify.errors import EvidenceError, InputError, TrainingError, importing
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import GoldTree, TokenizedSentence, padded_batch, predict
from relexify.evaluation.parsing.training import Formalism
from relexify.scoring import Score

__all__ = ["NO_HEAD", "TREES", "AttachmentScores", "Parse", "attachment_scores", "best_tree", "parse"]

TASK = "dependency parsing"
PUNCTUATION = "PUNCT"
NO_HEAD = -1
"""The head of a word that the model did not see because the sentence is too long; it never equals a gold head."""
NO_RELATION = "_"


class Parse(NamedTuple):
    """A predicted tree.

    Attributes:
        heads: As in `ParsedSentence`; `NO_HEAD` for words beyond the model's length.
        relations: As in `ParsedSentence`; `"_"` for words beyond the model's length.
    """

    heads: tuple[int, ...]
    relations: tuple[str, ...]


class AttachmentScores(NamedTuple):
    """Attachment scores.

    Attributes:
        uas: Share of words with the correct head.
        las: Share of words with the correct head and the correct relation.
    """

    uas: Score
    las: Score


def attachment_scores(
    gold: Sequence[ParsedSentence],
    predicted: Sequence[Parse | ParsedSentence],
    *,
    punctuation: bool = True,
) -> AttachmentScores:
    """Return unlabelled and labelled attachment scores, from 0 to 1.

    As in the official evaluation of CoNLL 2018 on gold words, every word counts by default, and relations are compared
    without their language-specific subtypes: `nmod:poss` equals `nmod`.

    Args:
        gold: The sentences of the treebank.
        predicted: A parse of each sentence.
        punctuation: Whether words with the tag PUNCT count; in RAMEN's tables, they do not.

    Raises:
        InputError: The numbers of sentences or of words differ.
        EvidenceError: There are no words to count.
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(predicted)} parses of {len(gold)} sentences: give one for each")
    words = attached = labelled = 0
    for number, (right, found) in enumerate(zip(gold, predicted, strict=True), 1):
        if not len(right.heads) == len(found.heads) == len(found.relations):
            raise InputError(
                f"sentence {number} has {len(right)} words, but its parse has {len(found.heads)} heads and "
                f"{len(found.relations)} relations: parse the words of the treebank without changes"
            )
        for index, tag in enumerate(right.upos):
            if tag == PUNCTUATION and not punctuation:
                continue
            gold_relation, relation = (each.relations[index].partition(":")[0] for each in (right, found))
            words += 1
            attached += right.heads[index] == found.heads[index]
            labelled += right.heads[index] == found.heads[index] and gold_relation == relation
    if not words:
        raise EvidenceError("the treebank has no words to count: give sentences, or count punctuation too")
    suffix = "" if punctuation else " without punctuation"
    return AttachmentScores(
        Score(TASK, f"UAS{suffix}", attached / words, True, words, "words"),
        Score(TASK, f"LAS{suffix}", labelled / words, True, words, "words"),
    )


def parse(
    parser: BiaffineParser,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[ParsedSentence],
    *,
    batch: int = 64,
) -> list[Parse]:
    """Find the best tree of every sentence.

    Args:
        parser: The parser, on the device to compute on.
        tokenizer: The tokenizer of the parser's encoder.
        sentences: Sentences, of which only the words and the spaces between them are read.
        batch: Number of sentences in a batch.

    Raises:
        TrainingError: A score is NaN or infinite.
        VocabularyError: The tokenizer is not the parser's.
        MissingExtra: The package `ufal.chu-liu-edmonds` is not installed.
    """

    def decode(tokenized: Sequence[TokenizedSentence], read: Sequence[ParsedSentence]) -> Iterator[Parse]:
        for sentence, tree in zip(read, _predict_trees(parser, tokenized), strict=True):
            missing = len(sentence) - len(tree.heads)
            yield Parse(tree.heads + (NO_HEAD,) * missing, tree.relations + (NO_RELATION,) * missing)

    return predict(parser, tokenizer, sentences, decode, batch=batch)


def best_tree(scores: np.ndarray) -> list[int]:
    """Return the heads of the best tree with exactly one child of ROOT (Chu–Liu/Edmonds).

    Every arc from ROOT gets a penalty that all other arcs together cannot compensate. The best tree therefore has only
    one arc from ROOT, and is the best among all such trees (Stanojević & Cohen, 2021).

    Args:
        scores: The score of each head for each word [words × 1 + words], with ROOT in column 0; a word's score for
            itself is ignored.

    Raises:
        TrainingError: A score is NaN or infinite.
    """
    with importing("ufal.chu-liu-edmonds", "parsing", "evaluation"):
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    words = len(scores)
    if not words:
        return []
    matrix = np.full((words + 1, words + 1), np.nan)  # for `chu_liu_edmonds`, NaN means that there is no arc
    matrix[1:] = scores
    np.fill_diagonal(matrix, np.nan)
    possible = ~np.eye(words + 1, dtype=bool)
    possible[0] = False
    if not np.isfinite(matrix[possible]).all():
        raise TrainingError("the parser produced NaN or infinite scores: train it with a lower learning rate")
    spread = matrix[possible].max() - matrix[possible].min()
    matrix[1:, 0] -= (words + 1) * (spread + 1.0)
    heads, _ = chu_liu_edmonds(matrix)
    return [int(head) for head in heads[1:]]


def _predict_trees(parser: BiaffineParser, sentences: Sequence[TokenizedSentence]) -> Iterator[Parse]:
    """Yield the best tree of each sentence of a batch, over the words that were kept."""
    inputs = {name: tensor.to(parser.device) for name, tensor in padded_batch(sentences).items()}
    output = parser(**inputs)
    scores = output.arc_scores.double().log_softmax(-1).cpu().numpy()
    heads = torch.zeros(inputs["word_mask"].shape, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        tree = best_tree(scores[row, : sentence.words, : sentence.words + 1])
        heads[row, : sentence.words] = torch.tensor(tree, dtype=torch.long)
    labels = parser.label_scores(output, heads.to(parser.device)).argmax(-1).cpu()
    for row, sentence in enumerate(sentences):
        names = (parser.config.relations[int(label)] for label in labels[row, : sentence.words])
        yield Parse(tuple(heads[row, : sentence.words].tolist()), tuple(names))


TREES: Formalism[ParsedSentence, GoldTree, Parse] = Formalism(
    parser=BiaffineParser,
    labels=lambda sentence: sentence.relations,
    gold=lambda sentence, numbers: (sentence.heads, tuple(numbers[relation] for relation in sentence.relations)),
    batch=padded_batch,
    predict=parse,
    dev_score=lambda gold, predicted: attachment_scores(gold, predicted, punctuation=False).las.value,
    dev_metric="LAS without punctuation",
)
