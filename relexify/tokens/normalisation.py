"""How a tokenizer normalises words: lower case, no accents, compatible characters."""

from __future__ import annotations

from collections.abc import Callable

from relexify.tokens.forms import METASPACE, TokenizerFamily, spelling_of
from relexify.tokens.vocabulary import AnyTokenizer, backend_of

__all__ = ["normaliser_of"]


def normaliser_of(tokenizer: AnyTokenizer) -> Callable[[str], str] | None:
    """Return the function that normalises a word as the tokenizer does; None if it has no normaliser.

    A space that the tokenizer puts before every text, and its mark for spaces, are not part of the result.
    """
    backend = backend_of(tokenizer)
    normaliser, family = backend.normalizer, spelling_of(backend).family
    # A normaliser may also write text in the byte-level alphabet, which is a spelling, and no change of the text.
    if normaliser is None or normaliser.normalize_str("ü") == "Ã¼":
        return None
    prepends = normaliser.normalize_str("a").startswith((" ", METASPACE))

    def normalise(word: str) -> str:
        try:
            seen: str = normaliser.normalize_str(word)
        except UnicodeEncodeError:  # a lone surrogate, which no tokenizer reads
            return word
        if family is TokenizerFamily.BYTE_LEVEL:
            return seen.removeprefix(" ") if prepends and not word.startswith(" ") else seen
        if family is not TokenizerFamily.METASPACE:
            return seen.strip(" ")  # BERT's puts spaces around ideographs
        seen = seen.replace(METASPACE, " ")
        return seen.removeprefix(" ") if prepends else seen

    return normalise
