"""The evidence of parallel text: from the files of a recipe to counts of aligned tokens."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from scipy.sparse import csr_array

from relexify.errors import InputError
from relexify.evidence.bitext import (
    Bitext,
    DirectedLinks,
    EncodedBitext,
    align_bitext,
    aligned_counts,
    encode_bitext,
    import_eflomal,
    looks_swapped,
    parse_links,
    read_links,
    symmetrise,
    validate_word_alignment,
)
from relexify.storage.cache import cache_folder
from relexify.systems.transfer.options import METHODS, Transfer
from relexify.systems.transfer.steps import kept_file, step_name
from relexify.tokens import encoder_of, vocabulary_of

__all__ = ["bitext_of", "check_bitext", "count_aligned_tokens", "is_aligned", "kept_links"]

ALIGNMENTS = "alignments"
"""The folder of the cache with links between the tokens of parallel text."""

logger = logging.getLogger(__name__)


def bitext_of(recipe: Transfer) -> Bitext | None:
    """The parallel text of a recipe, if it has any.

    Raises:
        InputError: A file is missing.
    """
    if recipe.bitext is None:
        return None
    return Bitext.open(recipe.bitext, fields=recipe.aligning.fields, swapped=recipe.aligning.swapped)


def check_bitext(recipe: Transfer) -> None:
    """Find out before the work begins what would stop it.

    Raises:
        InputError: The parallel text is needed and missing, cannot be read, or does not go with its options.
        MissingExtra: It has yet to be aligned, and the package for that is not installed.
    """
    validate_word_alignment(recipe.aligning)
    if recipe.bitext is None:
        if METHODS[recipe.method].needs_bitext:
            raise InputError(
                f"the method {recipe.method} needs parallel text: give it with --bitext, or choose another"
            )
        if recipe.alignment is not None:
            raise InputError("an alignment is given without its parallel text: give that with --bitext")
        return
    if recipe.alignment is None and recipe.aligning.units == "words":
        raise InputError('units = "words" is for a ready alignment: give it with --alignment, or leave units out')
    bitext = bitext_of(recipe)
    if bitext is not None:
        bitext.ensure_pairs()
        if METHODS[recipe.method].uses_bitext and recipe.alignment is None and not is_aligned(bitext):
            import_eflomal()
    if bitext is not None and recipe.alignment is not None:
        parse_links(Path(recipe.alignment), expected=sum(1 for _ in bitext))


def count_aligned_tokens(recipe: Transfer, old: Any, new: Any) -> csr_array:
    """How often tokens of the two vocabularies are aligned in the parallel text, [new × old].

    Args:
        recipe: With parallel text, and perhaps a ready alignment of it.
        old: The model's tokenizer.
        new: The new one.

    Raises:
        InputError: There is no parallel text, or it does not go with the alignment.
    """
    bitext = bitext_of(recipe)
    if bitext is None:
        raise InputError("there is no parallel text to count in: give it with --bitext")
    if looks_swapped(bitext, old, new):
        logger.warning(
            "%s seems to have the new language first: its first column is closer to the new tokenizer, its second to "
            "the model's; put the model's language first, or set aligning.swapped in a recipe",
            bitext.name,
        )
    options, ready = recipe.aligning, recipe.alignment
    pairs = encode_bitext(
        bitext, old, new, units=options.units, most_pairs=None if ready is not None else options.most_pairs
    )
    if ready is not None:
        links = read_links(Path(ready), pairs, swapped=options.swapped)
    else:
        directed = kept_links(bitext, pairs, (old, new), options.most_pairs)
        links = symmetrise(directed.forward, directed.reverse, options.symmetrisation)
    return aligned_counts(pairs, links, (len(vocabulary_of(new)), len(vocabulary_of(old))))


def is_aligned(bitext: Bitext) -> bool:
    """Whether an earlier run aligned it, with whatever tokenizers; then eflomal may not be needed again."""
    return any((cache_folder() / ALIGNMENTS).glob(f"{_name_of(bitext)}-*"))


def kept_links(
    bitext: Bitext, pairs: EncodedBitext, tokenizers: tuple[Any, Any], most_pairs: int | None
) -> DirectedLinks:
    """Both directions as eflomal finds them, or those that an earlier run found; every symmetrisation begins with them.

    Args:
        bitext: Parallel text.
        pairs: The same in tokens.
        tokenizers: Of the model's language and of the new one.
        most_pairs: How many pairs were read at most.

    Raises:
        MissingExtra: It has yet to be aligned, and eflomal is not installed.
    """
    name = step_name(
        "alignment",
        aligner="eflomal",
        bitext=bitext.fingerprint(),
        tokenizers=[encoder_of(tokenizer).identity for tokenizer in tokenizers],
        most_pairs=most_pairs,
    )
    return kept_file(
        ALIGNMENTS,
        f"{_name_of(bitext)}-{name}",
        DirectedLinks.load,
        lambda: align_bitext(pairs),
        lambda links, path: links.save(path),
    )


def _name_of(bitext: Bitext) -> str:
    return step_name("bitext", text=bitext.fingerprint())
