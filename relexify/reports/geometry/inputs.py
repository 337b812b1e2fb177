"""What is measured: the hidden states of a text, and a word among the tokens of a model or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.pretrained.architecture import IGNORED, architecture_in_config, encoder_frame, usable_length
from relexify.pretrained.text_start import text_start
from relexify.reports.geometry.measures import HiddenStates, Neighbourhood, hidden_states, neighbourhood
from relexify.scoring import held_out_windows
from relexify.text import Corpus
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["neighbours_among_tokens", "neighbours_in_file", "states_of_text"]

POSITIONS = 4_096
"""Tokens of text whose hidden states are compared."""
COLOURED = 5
"""Frequent tokens that a plot of hidden states shows in colour."""
VECTORS = 50_000
"""Words of a file of vectors that neighbours are searched among, the most frequent ones."""


def states_of_text(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, text: str, *, name: str
) -> tuple[HiddenStates, dict[int, str]]:
    """Return the hidden states of a text, and the names of its most frequent words that are tokens, by their ids.

    Args:
        model: A decoder or an encoder.
        tokenizer: Its tokenizer.
        text: As for `Corpus.open`.
        name: The name of the model, for messages.

    Raises:
        InputError: The model is an encoder-decoder.
    """
    kind = architecture_in_config(model.config)
    if kind == "encoder-decoder":
        raise InputError(f"{name} is an encoder-decoder: its layers do not form one sequence")
    before, after = encoder_frame(tokenizer) if kind == "encoder" else (text_start(tokenizer), [])
    length = min(512, usable_length(model) or 512) - len(before) - len(after)
    lines = Corpus.open(text).sample_bytes(16 * POSITIONS).split("\n")
    # What a decoder predicts is the text itself: nothing masked, no special token before it, and every token once.
    windows = held_out_windows(tokenizer, lines, "decoder", length=length).labels
    compared = [row[row != IGNORED].tolist() for row in windows[: max(1, POSITIONS // windows.shape[1])]]
    found, forms = hidden_states(model, compared, before=before, after=after), vocabulary_of(tokenizer).forms
    is_word = np.array([form.is_word for form in forms])
    return found, {token: forms[token].text for token in found.most_frequent(is_word, COLOURED)}


def neighbours_among_tokens(
    rows: np.ndarray, tokenizer: PreTrainedTokenizerFast, word: str, *, name: str
) -> Neighbourhood:
    """Return the neighbours of a word among the tokens of a model.

    Args:
        rows: Its embedding [tokens × width].
        tokenizer: Its tokenizer.
        word: A word that is one token.
        name: The name of the model, for messages.

    Raises:
        InputError: The word is no token.
    """
    vocabulary = vocabulary_of(tokenizer)
    ids = [id for id, form in enumerate(vocabulary.forms) if not form.is_special]
    found = [id for id in vocabulary.find(word) if not vocabulary.forms[id].is_special]
    if not found:
        raise InputError(f"{name} has no token {word!r}: choose a frequent word, which is one token")
    return neighbourhood(rows[ids], [vocabulary.forms[id].text for id in ids], ids.index(found[0]))


def neighbours_in_file(file: Path, word: str) -> Neighbourhood:
    """Return the neighbours of a word in a file of word vectors.

    Raises:
        InputError: The file cannot be read, or the word is not among its most frequent ones.
    """
    vectors = load_vectors(file)
    words = list(vectors.words[:VECTORS])
    if word not in words:
        raise InputError(f"{word!r} is not among the {len(words):,} most frequent words of {file}: choose another")
    return neighbourhood(vectors.lookup(words), words, words.index(word))
