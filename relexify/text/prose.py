"""English prose from the installed Python: its reference manual, docstrings, comments and licence.

The demo and the tests use this text because it needs no download. It depends only on the Python version.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

__all__ = ["clean_prose", "english_from_python"]


def english_from_python(limit: int | None = None) -> list[str]:
    """Collect distinct English paragraphs from the installed Python, in a fixed order.

    Args:
        limit: Maximum size of the text in bytes; by default, all of it (more than a megabyte).
    """
    paragraphs: dict[str, None] = {}
    size = 0
    for paragraph in chain.from_iterable(map(clean_prose, _texts())):
        if paragraph in paragraphs:
            continue
        size += len(paragraph.encode()) + 1
        if limit is not None and size > limit:
            break
        paragraphs[paragraph] = None
    return list(paragraphs)


def clean_prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of plain or reST text that are prose, each as one line without markup."""
    literal_above: int | None = None
    for block in _BLANK_LINES.split(text.expandtabs().strip("\n")):
        indent = len(block) - len(block.lstrip())
        if literal_above is not None and indent > literal_above:
            continue
        literal_above = indent if block.rstrip().endswith("::") else None
        for paragraph in _BULLET.split(block):
            joined = " ".join(paragraph.split())
            for pattern, replacement in _MARKUP:
                joined = pattern.sub(replacement, joined)
            if _is_prose(joined):
                yield joined


def _is_prose(paragraph: str) -> bool:
    """Whether a paragraph looks like complete sentences: enough words, few symbols, final punctuation."""
    if len(paragraph) < 40 or _CODE.search(paragraph) or not _SENTENCES.fullmatch(paragraph):
        return False
    symbols = len(_SYMBOL.findall(paragraph))
    words = len(_WORD.findall(paragraph))
    return words >= 7 and symbols * 40 <= len(paragraph) and len(paragraph) <= 9 * words


def _texts() -> Iterator[str]:
    """Yield all texts: the manual, text files, then docstrings and comments file by file."""
    from pydoc_data.topics import topics

    yield from (text for _, text in sorted(topics.items()))
    files = sorted(_standard_library())
    for path in files:
        if path.endswith(".txt"):
            yield Path(path).read_text("utf-8", "replace")
    for path in files:
        if path.endswith(".py"):
            yield from _strings_and_comments(Path(path).read_text("utf-8", "replace"))


def _standard_library() -> Iterator[str]:
    """Yield the text and Python files of the standard library, without its tests and without installed packages."""
    root = sysconfig.get_paths()["stdlib"]
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        yield from (os.path.join(folder, name) for name in files if name.endswith((".py", ".txt")))


def _strings_and_comments(code: str) -> Iterator[str]:
    """Yield the triple-quoted strings and the comment blocks of Python code."""
    for match in _LITERALS.finditer(code):
        if match.lastgroup == "comment":
            yield _COMMENT_SIGNS.sub("", match[0])
        elif match.lastgroup:
            yield match[match.lastgroup]


_SKIPPED_FOLDERS = {
    "__pycache__", "_bundled", "dist-packages", "idle_test", "site-packages", "test", "tests", "turtledemo",
}  # fmt: skip

# Plain strings and trailing comments are matched only to skip them together with the quotes inside them.
_LITERALS = re.compile(
    r"""(?P<comment>(?:^[ \t]*\#[^\n]*\n)+) | \#[^\n]*
    | \"{3}(?P<double>.*?)(?<!\\)\"{3} | '{3}(?P<single>.*?)(?<!\\)'{3}
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_COMMENT_SIGNS = re.compile(r"^[ \t]*#+[!:]?", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_BULLET = re.compile(r"(?:^|\n)[ ]*(?:[-*+o•]|\(?[0-9a-z][.)])[ ]+")

_MARKUP = (
    (re.compile(r"^(?:[^.]{1,80}? )?([*=~^+\"#-])\1{3,} ?"), ""),  # a heading and its underline
    (re.compile(r":[a-z:+-]+:`[~!]?([^`<]*?)(?: <[^`>]*>)?`"), r"\1"),  # :func:`text <target>`
    (re.compile(r"`([^`<]+?) <[^`>]*>`_{0,2}"), r"\1"),  # `text <target>`_
    (re.compile(r"`+([^`']+)(?:`+|')_{0,2}"), r"\1"),  # ``literal``, `text`, `quoted'
    (re.compile(r"(?<![\w*])\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}(?![\w*])"), r"\1"),  # *emphasis*
    (re.compile(r"^(?:XXX|TODO|FIXME|NOTE|Note|BUG)\b:? *"), ""),
    (re.compile(r"^\W*(?:[a-z_]\w*(?:\([^)]*\))?)? ?(?:--|:|->) (?=[A-Z])"), ""),  # the term of a definition
)
_CODE = re.compile(r">>>|\.\. [a-z|\[]|://|::|[=!<>]=|\bdef |\bself\b|\bimport \w+ |;;|\\\\|\$\w|%[sdr(]|\S{40}|--\w")
_SENTENCES = re.compile(r"""["'(]?[A-Z].*[.!?:]["')]*""", re.DOTALL)
_SYMBOL = re.compile(r"[_=(){}\[\]<>|/\\@#$%^&*+~`0-9]")
_WORD = re.compile(r"(?<!\S)[\"'(]*[A-Za-z]+(?:['’-][A-Za-z]+)*[.,;:!?\"')]*(?!\S)")
