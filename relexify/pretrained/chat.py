"""Chat templates of instruct models."""

from __future__ import annotations

import re

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

__all__ = ["default_system_prompt"]

_MESSAGE = "\u2063message\u2063"
"""A message that no template contains."""
_SENTENCE = re.compile(r"[^<>|\n]*\w+ +\w+ +\w+[^<>|\n]*")
"""Three words in a row: names of roles and special tokens are shorter."""


def default_system_prompt(tokenizer: PreTrainedTokenizerFast) -> str | None:
    """Return the text that the chat template puts before the first message of a user, in the source model's language.

    Returns:
        None if there is no template, or it adds nothing but names of roles and special tokens.
    """
    if not tokenizer.chat_template:
        return None
    try:
        written = str(tokenizer.apply_chat_template([{"role": "user", "content": _MESSAGE}], tokenize=False))
    except (TemplateError, TypeError, ValueError):  # it needs more than a message of a user
        return None
    found = _SENTENCE.search(written.partition(_MESSAGE)[0])
    return found[0].strip() if found else None
