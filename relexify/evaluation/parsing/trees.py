"""From a parser's scores to trees, and from trees to the share of words that are attached right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from relexify.errors import EvidenceError, InputError, MissingExtra, TrainingError
from relexify.evaluation.data.treebank import ParsedSentence, universal_relation
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import Cutting, cut_sentences, padded_batch
from relexify.pretrained.architecture import check_fit, usable_length
from relexify.progress import track
from relexify.scoring import Score

__all__ = ["NO_HEAD", "AttachmentScores", "Parse", "attachment_scores", "best_tree", "parse"]

TASK = "dependency parsing"
PUNCTUATION = "PUNCT"
NO_HEAD = -1
"""The head of a word that the model did not see because the sentence is too long: never right."""
NO_RELATION = "_"


class Parse(NamedTuple):
    """A predicted tree.

    Attributes:
        heads: As in `ParsedSentence`; `NO_HEAD` for words beyond the model's length.
        relations: As in `ParsedSentence`; `"_"` for those words.
    """

    heads: tuple[int, ...]
    relations: tuple[str, ...]


class AttachmentScores(NamedTuple):
    """How many words are attached right.

    Attributes:
        uas: Share of words with the right head.
        las: Share of words with the right head and the right relation.
    """

    uas: Score
    las: Score


def attachment_scores(
    gold: Sequence[ParsedSentence],
    predicted: Sequence[Parse | ParsedSentence],
    *,
    punctuation: bool = True,
    universal: bool = True,
) -> AttachmentScores:
    """Unlabelled and labelled attachment scores, from 0 to 1.

    With the options left as they are, this is what the official evaluation of CoNLL 2018 counts on gold words: every
    word counts, and relations are compared without their subtypes.

    Args:
        gold: The treebank.
        predicted: A parse of each of its sentences.
        punctuation: Whether words with the tag PUNCT count (RAMEN's tables leave them out).
        universal: Whether `nmod:poss` is as good as `nmod`.

    Raises:
        InputError: The two do not have the same sentences.
        EvidenceError: There is no word to count.
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(predicted)} parses of {len(gold)} sentences: give one of each")
    words = attached = labelled = 0
    for number, (right, found) in enumerate(zip(gold, predicted, strict=True), 1):
        if not len(right.heads) == len(found.heads) == len(found.relations):
            raise InputError(
                f"sentence {number} has {len(right)} words, its parse {len(found.heads)} heads and "
                f"{len(found.relations)} relations: parse the words of the treebank as they are"
            )
        for place, tag in enumerate(right.upos):
            if tag == PUNCTUATION and not punctuation:
                continue
            pair = right.relations[place], found.relations[place]
            same = universal_relation(pair[0]) == universal_relation(pair[1]) if universal else pair[0] == pair[1]
            words += 1
            attached += right.heads[place] == found.heads[place]
            labelled += right.heads[place] == found.heads[place] and same
    if not words:
        raise EvidenceError("the treebank has no words to count: give sentences, or count punctuation too")
    suffix = "" if punctuation else " without punctuation"
    return AttachmentScores(
        Score(TASK, f"UAS{suffix}", attached / words, True, words),
        Score(TASK, f"LAS{suffix}", labelled / words, True, words),
    )


def parse(
    parser: BiaffineParser, tokenizer: Any, sentences: Sequence[ParsedSentence | Sequence[str]], *, batch: int = 64
) -> list[Parse]:
    """Find the best tree of every sentence.

    Args:
        parser: Moved to its device already.
        tokenizer: Of the parser's encoder.
        sentences: Only their words (and the spaces between them) are looked at.
        batch: Sentences at a time.

    Raises:
        InputError: A sentence is not a list of words.
        TrainingError: The parser's scores are not numbers.
        VocabularyError: The tokenizer is not the parser's.
        MissingExtra: The package `ufal.chu-liu-edmonds` is needed.
    """
    check_fit(parser, tokenizer)
    words = [each if isinstance(each, ParsedSentence) else _unparsed(each) for each in sentences]
    cuttings = cut_sentences(tokenizer, words, usable_length(parser.encoder))
    parses = [Parse((), ())] * len(words)
    order = sorted(range(len(words)), key=lambda place: len(cuttings[place].ids))
    was_training = parser.training
    parser.eval()
    try:
        with torch.inference_mode(), track("parsing", len(words)) as advance:
            for start in range(0, len(order), batch):
                places = order[start : start + batch]
                trees = _trees(parser, [cuttings[place] for place in places])
                for place, tree in zip(places, trees, strict=True):
                    missing = len(words[place]) - len(tree.heads)
                    parses[place] = Parse(tree.heads + (NO_HEAD,) * missing, tree.relations + (NO_RELATION,) * missing)
                advance(len(places))
    finally:
        parser.train(was_training)
    return parses


def best_tree(scores: np.ndarray) -> list[int]:
    """The heads of the best tree with exactly one child of ROOT (Chu–Liu/Edmonds).

    Every arc from ROOT is made worse by more than all other arcs together can make up for, so that the best tree has
    only one of them, and is the best of those trees (Stanojević & Cohen, 2021).

    Args:
        scores: How well each head fits each word, 0 is ROOT [words × 1 + words]; a word's score for itself is not
            looked at.

    Raises:
        TrainingError: A score is not a finite number.
    """
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError as error:
        raise MissingExtra("ufal.chu-liu-edmonds", "parsing", "evaluation") from error
    words = len(scores)
    if not words:
        return []
    matrix = np.full((words + 1, words + 1), np.nan)  # not a number: no arc
    matrix[1:] = scores
    np.fill_diagonal(matrix, np.nan)
    possible = ~np.eye(words + 1, dtype=bool)
    possible[0] = False
    if not np.isfinite(matrix[possible]).all():
        raise TrainingError("the parser's scores are no numbers: train it with a lower learning rate")
    spread = matrix[possible].max() - matrix[possible].min()
    matrix[1:, 0] -= (words + 1) * (spread + 1.0)
    heads, _ = chu_liu_edmonds(matrix)
    return [int(head) for head in heads[1:]]


def _trees(parser: BiaffineParser, cuttings: list[Cutting]) -> Iterator[Parse]:
    inputs = {name: tensor.to(parser.device) for name, tensor in padded_batch(cuttings).items()}
    output = parser(**inputs)
    scores = output.arc_scores.double().log_softmax(-1).cpu().numpy()
    heads = torch.zeros(inputs["word_mask"].shape, dtype=torch.long)
    for row, cutting in enumerate(cuttings):
        tree = best_tree(scores[row, : cutting.words, : cutting.words + 1])
        heads[row, : cutting.words] = torch.tensor(tree, dtype=torch.long)
    labels = parser.label_scores(output, heads.to(parser.device)).argmax(-1).cpu()
    for row, cutting in enumerate(cuttings):
        names = (parser.config.relations[int(label)] for label in labels[row, : cutting.words])
        yield Parse(tuple(heads[row, : cutting.words].tolist()), tuple(names))


def _unparsed(words: Sequence[str]) -> ParsedSentence:
    if isinstance(words, str):
        raise InputError(f"{words[:40]!r} is a text, not a list of words: cut it into words first")
    count = len(words)
    return ParsedSentence(tuple(words), (NO_HEAD,) * count, (NO_RELATION,) * count, (NO_RELATION,) * count)
