"""Train WordPiece so that the same text always gives the same vocabulary.

The trainer of the package tokenizers numbers the letters inside words (`##a`) in the order of a hash table, which
differs between processes. Ids matter: of equally frequent pairs, it merges the pair with the lowest ids. Here, these
letters are passed as special tokens, which are numbered first and in a fixed order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenizers import Tokenizer
from tokenizers.trainers import WordPieceTrainer

from relexify.tokens.vocabulary import backend_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["train_wordpiece_like", "train_wordpiece_vocabulary"]


def train_wordpiece_like(
    like: PreTrainedTokenizerFast,
    lines: Callable[[], Iterable[str]],
    batches: Callable[[Iterable[str]], Iterator[list[str]]],
    vocab_size: int,
) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer of the same type as another one.

    Args:
        like: A transformers tokenizer.
        lines: Starts one pass over the text.
        batches: Splits the text into batches and reports the progress.
        vocab_size: Number of tokens, including special tokens.
    """
    backend = Tokenizer.from_str(backend_of(like).to_str())
    special = [token.content for _, token in sorted(backend.get_added_tokens_decoder().items()) if token.special]
    # A letter may need two tokens: at the beginning of a word and inside.
    room = max(1, (vocab_size - len(special)) // 2)
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
    """Train WordPiece on a text; return the ids by token, special tokens first.

    Args:
        backend: Normalises text and splits it into words; not changed.
        lines: Starts one pass over the text.
        batches: Splits the text into batches and reports the progress.
        vocab_size: Number of tokens, including special tokens; exceeded if the letters alone need more.
        special: Special tokens.
        alphabet: Maximum number of letters; the most frequent ones are kept, others become unknown.
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
    trained = Tokenizer.from_str(backend.to_str())
    trained.train_from_iterator(batches(lines()), trainer)
    ids: dict[str, int] = json.loads(trained.to_str())["model"]["vocab"]
    others = [token for token in sorted(ids, key=ids.__getitem__) if token not in special]
    return {token: id for id, token in enumerate([*special, *others])}


def _letters(backend: Tokenizer, lines: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Return the most frequent letters of the normalised text, and those of them that occur inside words."""
    counts: Counter[str] = Counter()
    inner: set[str] = set()
    split = backend.pre_tokenizer.pre_tokenize_str if backend.pre_tokenizer else lambda text: [(text, None)]
    for line in lines:
        text = backend.normalizer.normalize_str(line) if backend.normalizer else line
        counts.update(text)
        inner.update(*(word[1:] for word, _ in split(text)))
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))
    letters = [letter for letter in frequent if not letter.isspace()][:limit]
    return sorted(letters), sorted(inner.intersection(letters))
