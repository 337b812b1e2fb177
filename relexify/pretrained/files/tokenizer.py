"""Read a tokenizer.json, after rejecting one that the package tokenizers would crash on or misread.

transformers is not imported, so that invalid input is rejected immediately.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from relexify.errors import InputError, is_panic
from relexify.pretrained.files.packaged import PACKAGED, is_unpacked
from relexify.pretrained.names import resolve
from relexify.storage.json import read_json
from relexify.tokens import LARGEST_VOCABULARY, growth_of, is_lengthened

__all__ = ["check_backend_growth", "check_tokenizer_file", "read_local_backend"]

MOST_GROWTH = 100
"""How many times longer a tokenizer may make a text. Real tokenizers reach 18, with the tables of SentencePiece."""
MOST_ADDED = 1_000
"""Maximum number of characters that a tokenizer may add to a text, and of parts of its template."""


def read_local_backend(name: str) -> Tokenizer | None:
    """Return the backend of a tokenizer, or None if it is not on this machine or only transformers can read it.

    Args:
        name: As for `load_tokenizer`.

    Raises:
        InputError: As for `resolve`, or the file is damaged.
    """
    if name in PACKAGED and not is_unpacked(name):
        return None
    file = Path(resolve(name)) / "tokenizer.json"
    if not file.is_file():
        return None
    if read_json(file) is None:
        raise InputError(f"{file} is damaged: it is not a JSON file; check that it is complete")
    check_tokenizer_file(file)
    try:
        return Tokenizer.from_file(str(file))
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return None


def check_tokenizer_file(file: Path) -> None:
    """Validate a tokenizer.json where the package tokenizers would abort the process or misread it.

    It aborts the process if the highest id is too large for memory, if the normaliser is damaged, or if a chain of
    rules makes a short text too large for memory.

    Raises:
        InputError: The file is damaged.
    """
    state = read_json(file)
    if not isinstance(state, dict):
        return  # transformers reports the problem, or reads the tokenizer from other files
    model, added = state.get("model"), state.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids: list[object] = []
    if isinstance(vocabulary, dict):
        ids += vocabulary.values()
        if len(set(map(str, ids))) < len(vocabulary):  # as text, because a damaged id may be a list
            raise InputError(f"{file} is damaged: two tokens of its vocabulary have the same id")
    if isinstance(added, list):
        ids += [entry.get("id") for entry in added if isinstance(entry, dict)]
    for id in ids:
        if not isinstance(id, int) or not 0 <= id < LARGEST_VOCABULARY:
            raise InputError(f"{file} is damaged: a token has the id {id!r}, not a number below {LARGEST_VOCABULARY}")
    _check_template(file, state.get("post_processor"))
    pending = [state.get("normalizer")]  # a sequence of normalisers contains others
    while pending:
        part = pending.pop()
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("normalizers"), list):
            pending += part["normalizers"]
        if isinstance(pattern := part.get("pattern"), dict) and "" in pattern.values():
            raise InputError(f"{file} is damaged: its normaliser replaces empty text")
        if isinstance(text := part.get("precompiled_charsmap"), str) and not _is_character_map(text):
            raise InputError(f"{file} is damaged: the character map of its normaliser cannot be read")
    _check_growth(str(file), state)  # before loading, which already normalises the added tokens


def _check_growth(name: str, state: Mapping[str, object]) -> None:
    """Validate that no part of a tokenizer makes text so long that it may not fit into memory.

    Args:
        name: The name of the tokenizer, for messages.
        state: The parts of the tokenizer, as in `tokenizer.json`.

    Raises:
        InputError: A part may make text too long.
    """
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        growth = growth_of(state.get(part))
        if growth.factor > MOST_GROWTH or growth.added > MOST_ADDED:
            if part == "normalizer" and not is_lengthened(state.get(part), MOST_GROWTH, MOST_ADDED):
                continue
            raise InputError(
                f"the {part} of {name} may make text {growth.factor:,.3g} times as long and add {growth.added:,.3g} "
                f"characters, which may not fit into memory: use a tokenizer that makes text at most {MOST_GROWTH} "
                f"times as long and adds at most {MOST_ADDED:,} characters"
            )


def check_backend_growth(name: str, backend: Tokenizer) -> None:
    """Validate the growth of a loaded tokenizer, which may come from files other than tokenizer.json."""
    parts = {part: getattr(backend, part) for part in ("normalizer", "pre_tokenizer", "decoder")}
    _check_growth(name, {part: json.loads(value.__getstate__()) for part, value in parts.items() if value is not None})


def _check_template(file: Path, processor: object) -> None:
    """Validate that a post-processor template, alone or in a sequence, declares the special tokens that it adds."""
    if not isinstance(processor, dict):
        return
    for part in processor.get("processors") or ():
        _check_template(file, part)
    declared = processor.get("special_tokens")
    pieces = [*(processor.get("single") or ()), *(processor.get("pair") or ())]
    entries = declared.values() if isinstance(declared, dict) else ()
    ids = [id for entry in entries if isinstance(entry, dict) for id in entry.get("ids") or ()]
    if len(pieces) > MOST_ADDED or len(ids) > MOST_ADDED:
        raise InputError(
            f"{file} is damaged: its template has {len(pieces):,} parts and {len(ids):,} ids, more than {MOST_ADDED:,}"
        )
    for piece in pieces:
        special = piece.get("SpecialToken") if isinstance(piece, dict) else None
        if isinstance(special, dict) and isinstance(declared, dict) and special.get("id") not in declared:
            raise InputError(f"{file} is damaged: its template has the token {special.get('id')!r}, but not its id")


def _is_character_map(text: str) -> bool:
    """Whether a text is a character map of SentencePiece: the base64 of a table's size, the table, and its strings."""
    try:
        data = base64.b64decode(text, validate=True)
        size = int.from_bytes(data[:4], "little")
        data[4 + size :].decode()
    except ValueError:
        return False
    return len(data) >= 4 + size
