"""WordPiece trained so that the same text gives the same vocabulary.

The trainer numbers the letters inside words (`##a`) as it meets them in a hash table, whose order changes from process
to process, and of two pairs that are equally frequent it joins the one with the lower numbers. So they are numbered
beforehand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.trainers import WordPieceTrainer

from relexify.tokens.vocabulary import backend_of

__all__ = ["train_wordpiece_like", "train_wordpiece_vocabulary"]


def train_wordpiece_like(
    like: Any,
    lines: Callable[[], Iterable[str]],
    batches: Callable[[Iterable[str]], Iterator[list[str]]],
    vocab_size: int,
) -> Any:
    """Train a WordPiece tokenizer like another one.

    Args:
        like: A transformers tokenizer.
        lines: Gives the text anew at each call.
        batches: Cuts the text into batches and tells of the progress.
        vocab_size: Tokens, special ones included.
    """
    backend = Tokenizer.from_str(backend_of(like).to_str())
    special = [token.content for _, token in sorted(backend.get_added_tokens_decoder().items()) if token.special]
    room = max(1, (vocab_size - len(special)) // 2)  # a letter may stand at the beginning of a word and inside
    vocabulary = train_wordpiece_vocabulary(backend, lines, batches, vocab_size, special=special, alphabet=room)
    trained = like.train_new_from_iterator(iter([]), len(special), show_progress=False)
    state = json.loads(backend_of(trained).to_str())
    state["model"]["vocab"] = vocabulary
    for token in state["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    trained._tokenizer = Tokenizer.from_str(json.dumps(state))
    return trained


def train_wordpiece_vocabulary(
    backend: Tokenizer,
    lines: Callable[[], Iterable[str]],
    batches: Callable[[Iterable[str]], Iterator[list[str]]],
    vocab_size: int,
    *,
    special: Sequence[str],
    alphabet: int,
) -> dict[str, int]:
    """The vocabulary that WordPiece learns from a text: ids by token, special tokens first.

    Args:
        backend: Says how text is normalised and cut into words; it stays as it is.
        lines: Gives the text anew at each call.
        batches: Cuts the text into batches and tells of the progress.
        vocab_size: Tokens, special ones included; more where the letters alone are more.
        special: Special tokens.
        alphabet: At most so many letters, the most frequent; others become unknown.
    """
    prefix = backend.model.continuing_subword_prefix
    letters, inner = _letters(backend, lines(), alphabet)
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*special, *(prefix + letter for letter in inner)],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    learner = Tokenizer.from_str(backend.to_str())
    learner.train_from_iterator(batches(lines()), trainer)
    learnt: dict[str, int] = json.loads(learner.to_str())["model"]["vocab"]
    others = [token for token in sorted(learnt, key=learnt.__getitem__) if token not in special]
    return {token: place for place, token in enumerate([*special, *others])}


def _letters(backend: Tokenizer, lines: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The most frequent letters of the text as the model will see it, and those of them that occur inside words."""
    counts: Counter[str] = Counter()
    inner: set[str] = set()
    cut = backend.pre_tokenizer.pre_tokenize_str if backend.pre_tokenizer else lambda text: [(text, None)]
    for line in lines:
        text = backend.normalizer.normalize_str(line) if backend.normalizer else line
        counts.update(text)
        inner.update(*(word[1:] for word, _ in cut(text)))
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))
    letters = [letter for letter in frequent if not letter.isspace()][:most]
    return sorted(letters), sorted(inner.intersection(letters))
