"""Special tokens by role, and which source token can stand in for a target token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from relexify.tokens.vocabulary import AnyTokenizer

__all__ = ["EQUIVALENT_ROLES", "ROLES", "roles_of"]

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

EQUIVALENT_ROLES: Mapping[str, tuple[str, ...]] = {
    "bos": ("cls",),
    "cls": ("bos",),
    "eos": ("sep",),
    "sep": ("eos",),
    "pad": ("eos", "unk"),
    "unk": ("pad",),
    "turn_start": ("bos",),
    "turn_end": ("eos",),
}
"""Roles that can stand in for a role that the source model lacks, best first."""

CHAT_TOKENS: Mapping[str, tuple[str, ...]] = {
    "turn_start": ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|user|>", "[INST]"),
    "turn_end": ("<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|end|>", "[/INST]"),
}
"""Names of the start and the end of a turn in common chat formats."""

CONVENTIONAL_TOKENS: Mapping[str, tuple[str, ...]] = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]",),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]",),
    "mask": ("<mask>", "[MASK]"),
}
"""Usual names of special tokens; used for a bare `tokenizers.Tokenizer`, which does not declare roles."""


def roles_of(tokenizer: AnyTokenizer, backend: Tokenizer) -> dict[str, int]:
    """Return the ids of special tokens by role: as declared by the tokenizer, and chat tokens by their usual names."""
    declares = hasattr(tokenizer, "all_special_tokens")
    roles: dict[str, int] = {}
    for role in ROLES:
        names = [getattr(tokenizer, f"{role}_token", None)] if declares else CONVENTIONAL_TOKENS[role]
        _assign(roles, role, names, backend)
    for role, names in CHAT_TOKENS.items():
        _assign(roles, role, names, backend)
    return roles


def _assign(roles: dict[str, int], role: str, names: Sequence[str | None], backend: Tokenizer) -> None:
    """Assign the role to the first of the names that is in the vocabulary."""
    for name in names:
        id = backend.token_to_id(str(name)) if name is not None else None
        if id is not None:
            roles[role] = id
            return
