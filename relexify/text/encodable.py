"""Text that every tokenizer accepts, and its size in bytes."""

from __future__ import annotations

__all__ = ["count_bytes", "make_encodable"]


def make_encodable(text: str) -> str:
    """Replace lone surrogates: tokenizers reject them, but json escapes and strings in memory may contain them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def count_bytes(text: str) -> int:
    """Return the size of an encodable text in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode())
