"""Which tokenizer a transfer uses: the model's own with more tokens, a given one, that of a donor, or a trained one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from relexify.methods.registry import METHODS
from relexify.systems.transfer.options import Transfer

__all__ = ["TokenizerChoice", "choose_tokenizer", "recorded_choice"]


@dataclass(frozen=True)
class TokenizerChoice:
    """The tokenizer that a transfer uses.

    Attributes:
        origin: `extended`: the model's own, with added tokens; `given`; `donor`: that of the donor; `method`: trained
            as the method trains it; `like source`: trained like the model's own.
        name: A folder or a name on the Hub if it is `given` or that of a `donor`; else None.
    """

    origin: Literal["extended", "given", "donor", "method", "like source"]
    name: str | None = None

    @property
    def is_trained(self) -> bool:
        """Whether a vocabulary of `vocab_size` tokens is trained on the text."""
        return self.origin in ("method", "like source")


def choose_tokenizer(options: Transfer) -> TokenizerChoice:
    """Return which tokenizer a transfer uses."""
    return _choose(options.method, options.tokenizer, options.donor, keep_source=options.keep_source)


def recorded_choice(command: Mapping[str, Any]) -> TokenizerChoice:
    """Return which tokenizer an earlier transfer used.

    Args:
        command: Its options, as `relexify.json` has them.
    """
    method, keep_source = command.get("method", Transfer.method), command.get("keep_source", Transfer.keep_source)
    return _choose(method, command.get("tokenizer"), command.get("donor"), keep_source=keep_source)


def _choose(method: str, tokenizer: str | None, donor: str | None, *, keep_source: bool) -> TokenizerChoice:
    if keep_source:
        return TokenizerChoice("extended")
    if tokenizer is not None:
        return TokenizerChoice("given", tokenizer)
    entry = METHODS.get(method)  # None if an earlier transfer used a method that is not registered now
    if donor is not None and entry is not None and entry.takes("donor"):  # other methods make no use of a donor
        return TokenizerChoice("donor", donor)
    is_own = entry is not None and entry.train_tokenizer is not None
    return TokenizerChoice("method" if is_own else "like source")
