"""WordPiece trained so that the same text gives the same vocabulary.

The trainer numbers the letters inside words (`##a`) as it meets them in a hash table, whose order changes from process
to process, and of two pairs that are equally frequent it joins the one with the lower numbers. So they are numbered
beforehand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer
from tokenizers.trainers import WordPieceTrainer

from relexify.tokens.vocabulary import backend_of

__all__ = ["trained_wordpiece"]

MOST_LETTERS = 20_000
"""Of a text with more, the rarest are spelled as unknown; no script has as many."""


def trained_wordpiece(
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
    prefix = backend.model.continuing_subword_prefix
    special = [token.content for _, token in sorted(backend.get_added_tokens_decoder().items()) if token.special]
    letters = _letters(backend, lines(), max(1, (vocab_size - len(special)) // 2))
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=special + [prefix + letter for letter in letters],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    backend.train_from_iterator(batches(lines()), trainer)
    trained = like.train_new_from_iterator(iter([]), len(special), show_progress=False)
    state = json.loads(backend_of(trained).to_str())
    state["model"]["vocab"] = _in_order(json.loads(backend.to_str())["model"]["vocab"], special)
    for token in state["added_tokens"]:
        token["id"] = state["model"]["vocab"][token["content"]]
    trained._tokenizer = Tokenizer.from_str(json.dumps(state))
    return trained


def _letters(backend: Tokenizer, lines: Iterable[str], most: int) -> list[str]:
    """The letters of the text as the model will see it, in their own order; of very many, the most frequent."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(backend.normalizer.normalize_str(line) if backend.normalizer else line)
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))[: min(most, MOST_LETTERS)]
    return sorted(letter for letter in frequent if not letter.isspace())


def _in_order(vocabulary: dict[str, int], special: list[str]) -> dict[str, int]:
    """Special tokens first, then all others in the order they were learned."""
    rest = [token for token in sorted(vocabulary, key=vocabulary.__getitem__) if token not in set(special)]
    return {token: place for place, token in enumerate([*special, *rest])}
