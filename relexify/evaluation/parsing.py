"""Dependency parsing: train a biaffine parser on a treebank, parse with it, count what is right, swap its lexicon.

Zero-shot parsing (RAMEN, section 4.2): a parser that was trained on one language takes the tokenizer and the
embeddings of a model of another one, keeps its encoder and its scores, and parses that language.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from relexify.errors import EvidenceError, GraftError, InputError, MissingExtra, TrainingError
from relexify.evaluation.treebank import ParsedSentence, universal_relation
from relexify.grafting import lexical_axes, load_model, load_tokenizer
from relexify.models.biaffine import IGNORED, BiaffineConfig, BiaffineParser, inner_encoder
from relexify.progress import Progress, silent
from relexify.scoring import Score, check_fit, usable_length
from relexify.tokens import encode_words
from relexify.tokens.vocabulary import backend_of

__all__ = [
    "AttachmentScores",
    "Cutting",
    "Parse",
    "attachment_scores",
    "best_tree",
    "cut_sentence",
    "padded_batch",
    "parse",
    "swap_lexicon",
]

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
    parser: BiaffineParser,
    tokenizer: Any,
    sentences: Sequence[ParsedSentence | Sequence[str]],
    *,
    batch: int = 64,
    progress: Progress = silent,
) -> list[Parse]:
    """Find the best tree of every sentence.

    Args:
        parser: Moved to its device already.
        tokenizer: Of the parser's encoder.
        sentences: Only their words (and the spaces between them) are looked at.
        batch: Sentences at a time.
        progress: Told about sentences.

    Raises:
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
        with torch.inference_mode(), progress("parsing", len(words)) as advance:
            for start in range(0, len(order), batch):
                places = order[start : start + batch]
                trees = _trees(parser, [cuttings[place] for place in places])
                for place, tree in zip(places, trees, strict=True):
                    missing = len(words[place]) - len(tree.heads)
                    parses[place] = Parse(
                        tree.heads + (NO_HEAD,) * missing, tree.relations + (NO_RELATION,) * missing
                    )
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


def swap_lexicon(parser: BiaffineParser, target: str | Path) -> tuple[BiaffineParser, Any]:
    """A parser for another language: the tokenizer and embeddings of a model of it, all else as it is.

    Args:
        parser: Left as it is.
        target: A folder or name of a model that shares the parser's encoder.

    Returns:
        The new parser, and the tokenizer to parse with.

    Raises:
        GraftError: The model's encoder is not built like the parser's.
    """
    model, tokenizer = load_model(target), load_tokenizer(target)
    encoder = inner_encoder(model)
    lexical = lexical_axes(encoder)
    config = copy.deepcopy(parser.config)
    inner = copy.deepcopy(model.config)
    inner.dtype = config.encoder.dtype
    if getattr(inner, "use_cache", None) is not None:
        inner.use_cache = False
    config.encoder = inner
    swapped = BiaffineParser(BiaffineConfig(**{**config.to_dict(), "encoder": inner}))
    values = parser.state_dict()
    values |= {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items() if name in lexical}
    _check_same_build(swapped, values, target)
    if _positions_count_from(swapped) != _positions_count_from(parser):
        raise GraftError(
            f"{target} counts positions from its padding id {_positions_count_from(swapped)}, the parser's encoder "
            f"from {_positions_count_from(parser)}: give a model whose padding token has the same id"
        )
    swapped.load_state_dict(values)
    return swapped.to(parser.device).train(parser.training), tokenizer


class Cutting(NamedTuple):
    """A sentence in pieces.

    Attributes:
        ids: With the special tokens around it.
        word_of_piece: Index of the word of each, -1 for special tokens.
        words: How many words are left, where the sentence was too long.
    """

    ids: list[int]
    word_of_piece: list[int]
    words: int


def cut_sentences(tokenizer: Any, sentences: Sequence[ParsedSentence], length: int | None) -> list[Cutting]:
    """Cut sentences into pieces, as many as fit into `length` together with special tokens.

    A word that is cut in two keeps the pieces that fit; a word of which no piece fits is left out, with all after it.

    Raises:
        InputError: Nothing fits.
    """
    before, after = _frame(tokenizer)
    room = None if length is None else length - len(before) - len(after)
    if room is not None and room < 1:
        raise InputError(f"a length of {length} leaves no room for words: give a model that takes longer text")
    words = [word for sentence in sentences for word in _spaced(sentence)]
    pieces = iter(encode_words(tokenizer, words))
    return [_cut([next(pieces) for _ in sentence.words], before, after, room) for sentence in sentences]


def cut_sentence(tokenizer: Any, sentence: ParsedSentence, length: int | None) -> Cutting:
    """Cut one sentence into pieces; see `cut_sentences`."""
    return cut_sentences(tokenizer, [sentence], length)[0]


def padded_batch(
    cuttings: Sequence[Cutting],
    gold: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
    *,
    padding: int = 0,
) -> dict[str, torch.Tensor]:
    """What `BiaffineParser.forward` takes.

    Args:
        cuttings: Sentences in pieces.
        gold: Heads, and relations by index, of every sentence's words; what concerns a word left out does not count.
        padding: The id to pad with.
    """
    pieces = max(1, *(len(cutting.ids) for cutting in cuttings)) if cuttings else 1
    words = max(1, *(cutting.words for cutting in cuttings)) if cuttings else 1
    shape = len(cuttings)
    batch = {
        "input_ids": torch.full((shape, pieces), padding),
        "attention_mask": torch.zeros(shape, pieces, dtype=torch.long),
        "word_of_piece": torch.full((shape, pieces), -1),
        "word_mask": torch.zeros(shape, words, dtype=torch.bool),
    }
    for row, cutting in enumerate(cuttings):
        size = len(cutting.ids)
        batch["input_ids"][row, :size] = torch.tensor(cutting.ids, dtype=torch.long)
        batch["attention_mask"][row, : max(1, size)] = 1  # attention to nothing at all gives no numbers
        batch["word_of_piece"][row, :size] = torch.tensor(cutting.word_of_piece, dtype=torch.long)
        batch["word_mask"][row, : cutting.words] = True
    if gold is not None:
        batch |= _gold_tensors(cuttings, gold, words)
    return batch


def _gold_tensors(
    cuttings: Sequence[Cutting], gold: Sequence[tuple[Sequence[int], Sequence[int]]], words: int
) -> dict[str, torch.Tensor]:
    heads, relations = (torch.full((len(cuttings), words), IGNORED) for _ in range(2))
    for row, (cutting, (right, labels)) in enumerate(zip(cuttings, gold, strict=True)):
        for place in range(cutting.words):
            if right[place] <= cutting.words:
                heads[row, place], relations[row, place] = right[place], labels[place]
    return {"heads": heads, "relations": relations}


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


def _cut(pieces: list[list[int]], before: list[int], after: list[int], room: int | None) -> Cutting:
    ids: list[int] = []
    owners: list[int] = []
    kept = 0
    for word, own in enumerate(pieces):
        left = own if room is None else own[: room - len(ids)]
        if own and not left:
            break
        ids += left
        owners += [word] * len(left)
        kept = word + 1
        if len(left) < len(own):
            break
    return Cutting(
        [*before, *ids, *after], [-1] * len(before) + owners + [-1] * len(after), kept
    )


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer itself puts before and after a text."""
    encoding = backend_of(tokenizer).encode("a", add_special_tokens=True)
    text = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
    if not text:
        return encoding.ids, []
    return encoding.ids[: text[0]], encoding.ids[text[-1] + 1 :]


def _spaced(sentence: ParsedSentence) -> list[str]:
    spaces = sentence.spaces or (True,) * len(sentence)
    return [f" {word}" if space else word for word, space in zip(sentence.words, spaces, strict=True)]


def _unparsed(words: Sequence[str]) -> ParsedSentence:
    count = len(words)
    return ParsedSentence(tuple(words), (NO_HEAD,) * count, (NO_RELATION,) * count, (NO_RELATION,) * count)


def _check_same_build(swapped: BiaffineParser, values: dict[str, torch.Tensor], target: str | Path) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in swapped.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in values.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise GraftError(
                f"the encoder of {target} is not built like the parser's ({name} is {wanted.get(name)} there, "
                f"{found.get(name)} here): give a model that shares the parser's encoder"
            )


def _positions_count_from(parser: BiaffineParser) -> int | None:
    """The padding id, where positions are counted from it as in RoBERTa."""
    for name, module in parser.encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx)
    return None
