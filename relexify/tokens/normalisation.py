"""How a tokenizer normalises words: lower case, no accents, compatible characters."""

from __future__ import annotations

from collections.abc import Callable

from relexify.tokens.forms import METASPACE, TokenizerFamily, spelling_of
from relexify.tokens.vocabulary import AnyTokenizer, backend_of

__all__ = ["normaliser_of"]


def normaliser_of(tokenizer: AnyTokenizer) -> Callable[[str], str] | None:
    """Return a function that normalises a word as the tokenizer does, or None if it has no normaliser.

    The result contains neither the space that some tokenizers add before every text, nor their symbol for spaces.
    """
    backend = backend_of(tokenizer)
    normaliser, family = backend.normalizer, spelling_of(backend).family
    # A normaliser that only converts text to the byte-level alphabet changes its spelling, not the text.
    if normaliser is None or normaliser.normalize_str("ü") == "Ã¼":
        return None
    prepends = normaliser.normalize_str("a").startswith((" ", METASPACE))

    def normalise(word: str) -> str:
        try:
            normalised: str = normaliser.normalize_str(word)
        except UnicodeEncodeError:  # a lone surrogate, which no tokenizer accepts
            return word
        if family is TokenizerFamily.BYTE_LEVEL:
            added_space = prepends and not word.startswith(" ")
            return normalised.removeprefix(" ") if added_space else normalised
        if family is not TokenizerFamily.METASPACE:
            return normalised.strip(" ")  # BERT's normaliser puts spaces around ideographs
        normalised = normalised.replace(METASPACE, " ")
        return normalised.removeprefix(" ") if prepends else normalised

    return normalise
