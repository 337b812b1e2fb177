"""Which tables of a recipe go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relexify.errors import InputError
from relexify.recipes.file.paths import Place

__all__ = ["check_tables"]


def check_tables(table: Mapping[str, Any], top: Place) -> None:
    """Refuse tables that have no meaning together.

    Raises:
        InputError: There are two that have none.
    """
    for one, other, reason in (
        ("fresh", "transfer", 'a transfer keeps the inner parameters; method = "fullrand" begins without them'),
        ("fresh", "compare", "a comparison begins with the model's own parameters"),
        ("compress", "compare", "a comparison trains plain embeddings"),
        ("bilingual", "fresh", "the two languages share an encoder that knows the first"),
        ("bilingual", "compress", "both languages have plain embeddings"),
        ("trelm", "fresh", "TreLM begins with what a model has learnt"),
        ("trelm", "compress", "TreLM has embedding_size for fewer columns"),
        ("trelm", "training", "its phases are trained as [trelm.commonality] and the like say"),
        ("trelm", "bilingual", "these are two ways to the same end"),
        ("trelm", "compare", "a comparison trains plain models"),
        ("trelm", "tasks", "relexify evaluate --task parse measures a model with a TRILayer"),
    ):
        if one in table and other in table:
            raise InputError(f"{top.origin}: [{one}] and [{other}] do not go together ({reason}): leave out one")
    asked = [_entry(table, *keys) for keys in (("trelm", "vocabularies"), ("transfer", "method"))]
    if asked == ["separate", "trelm"]:
        raise InputError(
            f'{top.origin}: method = "trelm" makes one vocabulary for both languages, and [trelm] asks for separate '
            "ones: choose a method for a vocabulary of the new language, such as blend, or joint vocabularies"
        )


def _entry(table: Mapping[str, Any], name: str, key: str) -> Any:
    inner = table.get(name)
    return inner.get(key) if isinstance(inner, Mapping) else None
