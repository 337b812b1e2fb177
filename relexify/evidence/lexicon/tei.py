"""FreeDict dictionaries in TEI, an XML format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from relexify.errors import InputError
from relexify.evidence.lexicon.dictd import ASIDE
from relexify.evidence.lexicon.files import open_bytes, tidy

__all__ = ["read_tei"]

_BLOCK_BYTES = 1 << 20


def read_tei(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (headword, translation) pairs, one entry in memory at a time.

    Headwords are `entry/form/orth`; translations are the quotes of every `cit` of type `trans` outside examples, or
    the `tr` elements of older files. Remarks in brackets are dropped.

    Raises:
        InputError: The file is missing, not well-formed, or declares entities (which could expand without bounds).
    """
    _reject_entities(path)
    with open_bytes(path) as stream:
        parser = ElementTree.iterparse(stream, events=("start", "end"))
        body: ElementTree.Element | None = None
        try:
            for event, element in parser:
                name = _name(element)
                if event == "start" and name == "body":
                    body = element
                elif event == "end" and name == "entry":
                    yield from _entry_pairs(element)
                    (element if body is None else body).clear()
        except ElementTree.ParseError as error:
            raise InputError(f"{path} is not well-formed XML ({error}): download it again") from error


def _reject_entities(path: Path) -> None:
    """Scan the file for entity declarations, which the XML parser would expand, and for UTF-16."""
    declaration, tail = b"<!ENTITY", b""
    with open_bytes(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            if b"\0" in block:
                raise InputError(f"{path} is not in UTF-8: convert it with `iconv -f utf-16 -t utf-8`")
            if declaration in tail + block:
                raise InputError(f"{path} declares XML entities, which are not expanded: remove its DOCTYPE")
            tail = block[-len(declaration) :]


def _entry_pairs(entry: ElementTree.Element) -> Iterator[tuple[str, str]]:
    headwords = list(_headwords(entry))
    for translation in _translations(entry):
        for headword in headwords:
            yield headword, translation


def _headwords(entry: ElementTree.Element) -> Iterator[str]:
    """Yield the entry's own forms; inflected forms are nested inside a form, and are not headwords."""
    for form in entry:
        if _name(form) == "form":
            for child in form:
                if _name(child) == "orth" and (word := _text(child)):
                    yield word


def _translations(element: ElementTree.Element) -> Iterator[str]:
    for child in element:
        name, kind = _name(child), child.get("type")
        if name == "cit" and kind in ("trans", "translation"):
            yield from (word for quote in child if _name(quote) == "quote" and (word := _text(quote)))
        elif name == "tr":
            yield from filter(None, [_text(child)])
        elif name != "cit":
            yield from _translations(child)


def _name(element: ElementTree.Element) -> str:
    """Return the element's name without its namespace; comments have no name."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ElementTree.Element) -> str:
    return tidy(ASIDE.sub(" ", "".join(element.itertext())))
